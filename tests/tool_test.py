"""Tests the belay command on the golden checkpoints.

Usage: tool_test.py BELAY GOLDEN_DIR VERSION
Exact output and exit codes: 0 all is well, 1 damage, 2 cannot be carried out.
"""
import json
import re
import shutil
import sys
import unittest

import h5py

from tool_case import (ARGS, GRAPH, GROUPS, PER_TASK, SHARED, STRUCTS, TIME,
                       VERSION, ToolCase, crc32c)

ARRAYS = """\
key           dtype   shape          bytes  stored as
empty text    string  []               0 B  empty
none          f64     [3, 0]           0 B  empty
odd/100%/a@b  i32     []               4 B  contiguous
text          string  []              18 B  contiguous
types         i64     []               8 B  contiguous
types/bf16    bf16    [2, 1]           4 B  contiguous
types/bool    bool    [3]              3 B  contiguous
types/c128    c128    [2]             32 B  contiguous
types/c64     c64     []               8 B  contiguous
types/f16     f16     [3]              6 B  contiguous
types/f32     f32     [2, 3]          24 B  contiguous
types/f64     f64     []               8 B  contiguous
types/f8e4m3  f8e4m3  [2]              2 B  contiguous
types/f8e5m2  f8e5m2  [2]              2 B  contiguous
types/i16     i16     [1, 2, 1]        4 B  contiguous
types/i32     i32     [3]             12 B  contiguous
types/i64     i64     []               8 B  contiguous
types/i8      i8      [3]              3 B  contiguous
types/u16     u16     []               2 B  contiguous
types/u32     u32     [2]              8 B  contiguous
types/u64     u64     [2]             16 B  contiguous
types/u8      u8      [2]              2 B  contiguous
"""


PIECES = """\
file                    group  key           box          device
data_00000_of_00003.h5      0  types/f16     0,1          /task:1
data_00000_of_00003.h5      0  types/u8      0,2          /task:1
data_00000_of_00003.h5      0  w             0,4:0,6      /task:0
data_00000_of_00003.h5      0  w             0,6:6,4      /task:1
data_00001_of_00003.h5      1  types/bf16    0,2:0,1      /task:0
data_00001_of_00003.h5      1  types/bool    0,3          /task:0
data_00001_of_00003.h5      1  types/c128    0,2          /task:0
data_00001_of_00003.h5      1  types/f16     1,2          /task:1
data_00001_of_00003.h5      1  types/f32     0,2:0,3      /task:1
data_00001_of_00003.h5      1  types/f64     -            /task:1
data_00001_of_00003.h5      1  types/f8e4m3  0,2          /task:1
data_00001_of_00003.h5      1  types/f8e5m2  0,2          /task:1
data_00001_of_00003.h5      1  types/i16     0,1:0,2:0,1  /task:1
data_00001_of_00003.h5      1  types/i32     0,3          /task:1
data_00001_of_00003.h5      1  types/i64     -            /task:1
data_00001_of_00003.h5      1  types/i8      0,3          /task:1
data_00001_of_00003.h5      1  types/u16     -            /task:1
data_00001_of_00003.h5      1  types/u32     0,2          /task:1
data_00001_of_00003.h5      1  types/u64     0,2          /task:1
data_00001_of_00003.h5      1  w             4,2:0,6      /task:0
data_00002_of_00003.h5      2  odd/100%/a@b  -            /task:0
data_00002_of_00003.h5      2  text          0,18         /task:0
data_00002_of_00003.h5      2  types         -            /task:0
data_00002_of_00003.h5      2  types/c64     -            /task:1
"""


def read_all(path):
    """Reads every dataset of a file, through links of any kind."""
    def read(group):
        for name in group:
            found = group[name]
            if isinstance(found, h5py.Group):
                read(found)
            else:
                found[()]
    with h5py.File(path) as file:
        read(file)


class ToolTest(ToolCase):
    def test_ls_shared(self):
        self.assertEqual(
            self.belay("ls", SHARED),
            (0, f"{SHARED}: step 7, saved {TIME}, 23 arrays, 414 B in one "
                "shared file (1), format 1.0, CRC32C\n\n" + ARRAYS +
                "w             i32     [6, 10]        240 B  "
                "2 chunks of [6, 6]\n", ""))

    def test_ls_of_a_directory_of_steps_takes_the_newest(self):
        expected = (
            0, f"{PER_TASK}: step 100000008, saved {TIME}, 23 arrays, 414 B in "
               "one file per task (2), format 1.0, CRC32C\n\n" + ARRAYS +
               "w             i32     [6, 10]        240 B  2 pieces\n", "")
        self.assertEqual(self.belay("ls", "run"), expected)
        self.path("run/step_100000009.inprogress").mkdir()
        self.assertEqual(self.belay("ls", "run"), expected)
        self.assertEqual(self.belay("ls", PER_TASK), expected)

    def test_ls_shards(self):
        self.take(GROUPS, PER_TASK)
        head = (f"{GROUPS}: step 9, saved {TIME}, 23 arrays, 414 B in shared "
                "files (3), format 1.0, CRC32C\n\n")
        self.assertEqual(self.belay("ls", "--shards", GROUPS),
                         (0, head + PIECES, ""))
        code, out, err = self.belay("ls", "run", "--shards")
        self.assertEqual((code, err), (0, ""))
        lines = out.splitlines()[3:]
        self.assertEqual(len(lines), 22)
        for line in lines:  # each file is of one task
            file, group, *_, device = line.split()
            task = int(device.removeprefix("/task:"))
            self.assertEqual(file, f"data_{task:05}_of_00002.h5")
            self.assertEqual(group, "0")

    def test_ls_shards_of_a_shared_dataset(self):
        out = self.run_belay("ls", "--shards", SHARED)
        lines = [line.split()[2:] for line in out.splitlines()[3:]]
        self.assertEqual(lines[-1], ["w", "0,6:0,10", "shared"])
        # One rank has written each of the others, about half of the bytes.
        self.assertEqual({line[-1] for line in lines[:-1]},
                         {"/task:0", "/task:1"})

    def test_ls_shards_of_a_layout(self):
        self.take(GRAPH)
        out = self.run_belay("ls", "--shards", GRAPH)
        lines = [line.split()[2:] for line in out.splitlines()
                 if "  model/embed/.ATTRIBUTES/" in line]
        key = "model/embed/.ATTRIBUTES/VARIABLE_VALUE"
        self.assertEqual(lines, [[key, "0,2:0,3", "/task:0"],
                                 [key, "2,2:0,3", "/task:1"]])

    def test_verify(self):
        for step in SHARED, PER_TASK:
            self.assertEqual(
                self.belay("verify", step),
                (0, f"{step}: 23 arrays, 21 blocks, 414 B: all checksums "
                    "match\n", ""))
        self.assertEqual(self.belay("verify", "-q", SHARED), (0, "", ""))
        self.assertEqual(self.belay("verify", "--quiet", "run"), (0, "", ""))
        self.assertTrue(self.belay("verify", "run")[1].endswith(
            "match\nthe newest of 2 steps; --all verifies the others, too\n"))

    def test_verify_names_a_flipped_byte(self):
        data = f"{SHARED}/data_00000_of_00001.h5"
        text = "gr\u00fc\u00df dich, belay".encode()
        self.flip(data, text)
        need, found = crc32c(text), crc32c(bytes([text[0] ^ 1]) + text[1:])
        for options in [], ["-q"]:
            self.assertEqual(
                self.belay("verify", *options, SHARED),
                (1, 'damaged: checksum of key "text", block 0 (box "0,18") in '
                    'file "data_00000_of_00001.h5" does not match (need '
                    f"0x{need:08x}, found 0x{found:08x})\n"
                    f"{SHARED}: damaged in 1 place\n", ""))
        # The listing reads the index only.
        self.assertEqual(self.belay("ls", SHARED)[0], 0)

    def test_verify_looks_for_all_arrays_in_the_index(self):
        for step in SHARED, PER_TASK:
            index = self.path(f"{step}/index.h5")
            content = index.read_bytes()
            told = 0
            for at in range(0, len(content), 307):
                index.write_bytes(content[:at] + bytes([content[at] ^ 1]) +
                                  content[at + 1:])
                code, out, err = self.belay("verify", step)
                told += "other programs cannot read it" in out
                # What h5py cannot read is told, in one way or another.
                if code == 0:
                    try:
                        read_all(index)
                    except (KeyError, OSError, RuntimeError) as error:
                        self.fail(f"{step}, byte {at}: {error}")
            self.assertGreater(told, 0)

    def test_verify_names_truncated_and_missing_files(self):
        data = self.path(f"{PER_TASK}/data_00001_of_00002.h5")
        need = data.stat().st_size
        others = "the newest of 2 steps; --all verifies the others, too\n"
        data.write_bytes(data.read_bytes()[:-1])
        self.assertEqual(
            self.belay("verify", "run"),
            (1, f'damaged: open "{PER_TASK}/data_00001_of_00002.h5": the data '
                f"file is truncated (need {need} bytes, found {need - 1})\n"
                f"{PER_TASK}: damaged in 1 place\n{others}", ""))
        data.unlink()
        self.assertEqual(
            self.belay("verify", "run"),
            (1, f'damaged: open "{PER_TASK}/data_00001_of_00002.h5": the data '
                f"file is missing (need {need} bytes, found none)\n"
                f"{PER_TASK}: damaged in 1 place\n{others}", ""))

    def test_a_damaged_index_cannot_be_read(self):
        self.flip(f"{SHARED}/index.h5", b"odd/100%/a@b")
        for command in (["ls"], ["verify"], ["show", "types"], ["graph"],
                        ["diff", "run"]):
            self.assertEqual(
                self.belay(command[0], SHARED, *command[1:]),
                (2, "", f'belay: DATA_LOSS: read "{SHARED}/index.h5": the index '
                        "is damaged: its digest does not match; no earlier "
                        "step is there\n"))

    def test_a_damaged_index_is_named_whatever_is_damaged(self):
        index = self.path(f"{SHARED}/index.h5")
        content = index.read_bytes()
        unnamed = set()
        # The header of each object of HDF5 has a checksum.
        for header in re.finditer(b"OHDR", content):
            at = header.start() + 20
            index.write_bytes(content[:at] + bytes([content[at] ^ 0x55])
                              + content[at + 1:])
            code, out, err = self.belay("ls", SHARED)
            if code != 0 and f'"{SHARED}/index.h5"' not in err:
                unnamed.add(err)
        self.assertEqual(unnamed, set())

    def test_damaged_metadata_hides_no_arrays(self):
        whole = self.run_belay("ls", SHARED)
        self.path(f"{SHARED}/metadata.json").write_text("{")
        error = f'belay: DATA_LOSS: read "{SHARED}/metadata.json": damaged: '
        code, out, err = self.belay("ls", SHARED)
        self.assertEqual((code, out), (1, whole))
        self.assertTrue(err.startswith(error), err)
        code, out, err = self.belay("ls", "--json", SHARED)
        self.assertEqual(code, 1)
        self.assertIsNone(json.loads(out)["metadata"])
        self.assertTrue(err.startswith(error), err)

    def test_the_error_of_a_damaged_index_names_an_earlier_step(self):
        later = "run/step_00000009"
        shutil.copytree(self.path(SHARED), self.path(later))
        index = self.path(f"{later}/index.h5")
        index.write_bytes(index.read_bytes()[:100])
        err = self.fails("ls", later)
        self.assertTrue(err.startswith(
            f'belay: DATA_LOSS: read "{later}/index.h5": the index is '
            "damaged: "), err)
        self.assertTrue(err.endswith(
            "; use an earlier step, such as 7\n"), err)
        self.assertEqual(err.count("index.h5"), 1)

    def test_a_step_without_an_index(self):
        self.path(f"{SHARED}/index.h5").unlink()
        self.assertEqual(
            self.belay("ls", SHARED),
            (2, "", f'belay: NOT_FOUND: open "{SHARED}": the step has no '
                    "index.h5; parts of it were deleted, or not copied\n"))

    def test_keys_that_do_not_print(self):
        self.copy()
        step = "other/step_00000007"
        with h5py.File(self.path(f"{step}/index.h5")) as index:
            keys = [k.decode() for k in index[".belay/arrays/key"][:]]
        row = keys.index("types/bf16")
        self.patch_index("arrays/key", row, b"types/b\n\x1bl")
        code, out, err = self.belay("ls", step)
        self.assertEqual((code, err), (0, ""))
        self.assertIn('\n"types/b\\n\\x1bl"  bf16    [2, 1] ', out)
        self.assertIn("\nw                 i32     [6, 10] ", out)
        code, out, err = self.belay("ls", "--shards", step)
        self.assertEqual((code, err), (0, ""))
        self.assertIn('  "types/b\\n\\x1bl"  0,2:0,1 ', out)
        self.assertNotIn("\x1b", out)

    def test_no_name_speaks_to_the_terminal(self):
        odd = "\x1b[2J\u202e\u009b".encode()
        for column, row, data in (("arrays/key", None, b"types/b\xe2\x80\xae"),
                                  ("arrays/key", None, b"types/b\xc2\x9bm"),
                                  ("files/name", 0, odd),
                                  ("header/magic", 0, odd)):
            shutil.rmtree(self.path("other"), ignore_errors=True)
            self.copy()
            step = "other/step_00000007"
            if row is None:
                with h5py.File(self.path(f"{step}/index.h5")) as index:
                    keys = [k.decode() for k in index[".belay/arrays/key"][:]]
                row = keys.index("types/bf16")
            self.patch_index(column, row, data)
            for command in (["ls", step], ["ls", "--shards", step],
                            ["ls", "--json", step], ["verify", step],
                            ["show", step, "w"], ["show", step, "types/c"],
                            ["graph", step], ["plan", step],
                            ["diff", step, SHARED],
                            ["export", step, "out.safetensors"]):
                with self.subTest(column=column, data=data, command=command):
                    code, out, err = self.belay(*command)
                    self.assertTrue(out + err)
                    self.assertFalse(set(out + err)
                                     & set("\x1b\u009b\u202e"), out + err)

    def test_no_name_looks_like_a_line_of_the_command(self):
        self.copy()
        self.patch_index("header/magic", 0, b"x\nsound: all\n")
        for command in ["ls"], ["verify"], ["copy"], ["show", "w"], ["graph"]:
            arguments = ["to"] if command == ["copy"] else command[1:]
            code, out, err = self.belay(command[0], self.step, *arguments)
            self.assertNotEqual(code, 0)
            self.assertNotIn("\nsound", out + err)
            self.assertIn("sound: all", out + err)
        line = b"x\nsound"
        for step, columns, key in (
                (GRAPH, ["arrays/layout"],
                 "model/embed/.ATTRIBUTES/VARIABLE_VALUE"),
                (ARGS, ["arrays/args"], "types/f16"),
                (STRUCTS, ["arrays/key", "values/key"], "bodies")):
            self.copy(step)
            with h5py.File(self.path(f"{self.step}/index.h5")) as index:
                row = list(index[".belay/arrays/key"][:]).index(key.encode())
                width = index[".belay/" + columns[0]].dtype.itemsize
            for column in columns:
                self.patch_index(column, row, line[:width])
            if step == STRUCTS:
                key = line[:width].decode() + ".id"
            code, out, err = self.belay("show", self.step, key)
            self.assertEqual((code, err), (0, ""), step)
            self.assertNotIn("\nsoun", out)
            self.assertIn("soun", out)

    def test_what_is_not_there(self):
        self.path("empty").mkdir()
        for command in (["ls"], ["verify"], ["show", "types"], ["graph"],
                        ["diff", "run"]):
            self.assertEqual(
                self.belay(command[0], "none", *command[1:]),
                (2, "", 'belay: NOT_FOUND: list directory "none": no such file '
                        "or directory\n"))
            self.assertEqual(
                self.belay(command[0], "empty", *command[1:]),
                (2, "", 'belay: NOT_FOUND: open "empty": neither a committed '
                        "step nor a directory of steps\n"))

    def test_version_and_help(self):
        self.assertEqual(self.belay("--version"), (0, VERSION + "\n", ""))
        code, out, err = self.belay("--help")
        self.assertEqual((code, err), (0, ""))
        for line in ("Look into belay checkpoints, and plan them.", "ls ",
                     "verify ", "show ", "graph ", "diff ", "plan ",
                     "simulate ", "export ", "import "):
            self.assertIn(line, out)
        code, out, err = self.belay("verify", "--help")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("-q,--quiet", out)

    def test_wrong_usage(self):
        for args, message in ([], "A subcommand is required"), (
                ["ls"], "DIR is required"), (
                ["look", SHARED], "There is no command \"look\". The commands "
                "are ls, "), (
                ["show", SHARED], "KEY is required"), (
                ["show", SHARED, "w", "--max", "-1"], "--max"), (
                ["diff", SHARED], "B is required"), (
                ["diff", SHARED, "run", "--tolerance", "-1"], "--tolerance"), (
                ["graph"], "DIR is required"), (
                ["graph", SHARED, "--depth", "-1"], "--depth"), (
                ["ls", SHARED, "--fast"], "Not expected: --fast\n"), (
                ["ls", SHARED, "--shard"],
                "Not expected: --shard; close to it: \"--shards\"\n"), (
                ["diff", SHARED, "run", "--tolerence=1"],
                "; close to it: \"--tolerance\"\n"), (
                ["diff", "run", "run", "--step", "4"],
                "Not expected: --step 4. Give the directory of the step, such as "
                "run/step_00000004\n"):
            code, out, err = self.belay(*args)
            self.assertEqual((code, out), (2, ""), args)
            self.assertIn(message, err)
        for number in "-1", "nan", "x":
            for args in (["graph", SHARED, "--depth"],
                         ["show", SHARED, "w", "--max"],
                         ["diff", SHARED, "run", "--tolerance"]):
                code, out, err = self.belay(*args, number)
                self.assertEqual((code, out), (2, ""), args)
                self.assertIn(
                    f'{args[-1]}: "x" is not a number' if number == "x" else
                    f"{args[-1]}: need at least 0, found {number}", err)
                self.assertLess(len(err), 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
