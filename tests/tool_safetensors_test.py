"""Tests `belay export` and `belay import` on the golden checkpoints, against a
reader and a writer of safetensors that know nothing of belay.

Usage: tool_safetensors_test.py BELAY GOLDEN_DIR VERSION
"""
import json
import os
import struct
import subprocess
import sys
import unittest

import h5py
import numpy as np

import safetensors_format
from tool_case import BELAY, SHARED, ToolCase


class SafetensorsTest(ToolCase):
    def export(self, *args):
        return self.run_belay("export", SHARED, *args)

    def arrays(self, name):
        """What the independent reader finds, as bytes."""
        _, arrays = safetensors_format.read_all(str(self.path(name)))
        return {key: array.tobytes() for key, array in arrays.items()}

    def stored(self):
        """What h5py finds in the checkpoint, of what has a form there."""
        found = {}
        with h5py.File(self.path(SHARED) / "index.h5") as index:
            for key in index[".belay/arrays/key"][:]:
                name = key.decode()
                path = {"types": "types/%value",
                        "odd/100%/a@b": "odd/100%25/a%40b"}.get(name, name)
                if "text" in name or name == "types/c128":
                    continue
                value = np.asarray(index[path][()])
                if name == "types/bf16":  # which h5py shows as f32
                    value = (value.view("<u4") >> 16).astype("<u2")
                found[name] = value.tobytes()
        return found

    def test_export(self):
        out = self.export("x.safetensors", "--leave-out-others",
                          "--metadata", "format=pt")
        self.assertEqual(
            out.splitlines(),
            [f"{SHARED}: step 7, 20 tensors, 364 B to 1 file, 19 blocks "
             "checked", "",
             "file           tensors       bytes",
             "x.safetensors       20     1.7 KiB", "",
             "left out: empty text (safetensors has no form for string)",
             "left out: text (safetensors has no form for string)",
             "left out: types/c128 (safetensors has no form for c128)"])
        self.assertEqual(self.arrays("x.safetensors"), self.stored())
        header, _ = safetensors_format.read(str(self.path("x.safetensors")))
        self.assertEqual(header["__metadata__"], {"format": "pt"})
        self.assertEqual(header["types"]["shape"], [])
        self.assertEqual(header["none"]["shape"], [3, 0])

    def test_several_files(self):
        out = self.export("hf", "--leave-out-others", "--max-file-bytes", "1kb")
        self.assertIn(" to 2 files, ", out.splitlines()[0])
        self.assertIn("\nhf/model.safetensors.index.json\n", out)
        self.assertEqual(self.arrays("hf/model.safetensors.index.json"),
                         self.stored())

    def test_export_of_keys(self):
        self.export("x.safetensors", "--keys", "types/f[36].*", "--keys", "w")
        self.assertEqual(set(self.arrays("x.safetensors")),
                         {"types/f32", "types/f64", "w"})
        self.assertIn("matches no key (need one of 23)",
                      self.fails("export", SHARED, "y.safetensors", "--keys",
                                 "type"))

    def test_round_trip(self):
        self.export("x.safetensors", "--leave-out-others", "--metadata", "a=b=c")
        out = self.run_belay("import", "x.safetensors", "new")
        self.assertEqual(
            out.splitlines(),
            ["new/step_00000000: step 0, 20 tensors, 1 text of metadata, "
             "364 B from 1 file", "",
             "file           tensors       bytes",
             "x.safetensors       20     1.7 KiB"])
        self.assertEqual(self.run_belay("verify", "-q", "new"), "")
        self.assertIn("b=c", self.run_belay("show", "new", "__metadata__/a"))
        self.run_belay("export", "new", "y.safetensors", "--step", "0")
        self.assertEqual(self.path("x.safetensors").read_bytes(),
                         self.path("y.safetensors").read_bytes())
        self.run_belay("import", "x.safetensors", "new", "--step", "5",
                       "--no-metadata", "--keys", "w")
        self.assertIn("1 array, 240 B", self.run_belay("ls", "new"))

    def test_what_is_there_stays(self):
        self.export("x.safetensors", "--keys", "w")
        before = self.path("x.safetensors").read_bytes()
        self.assertIn("the file is there already; choose another name or add "
                      "--overwrite",
                      self.fails("export", SHARED, "x.safetensors", "--keys",
                                 "none"))
        self.assertEqual(self.path("x.safetensors").read_bytes(), before)
        self.run_belay("export", SHARED, "x.safetensors", "--keys", "none",
                       "--overwrite")
        self.assertNotEqual(self.path("x.safetensors").read_bytes(), before)
        self.run_belay("import", "x.safetensors", "new")
        self.assertIn("the step is committed already; choose another number "
                      "or add --overwrite",
                      self.fails("import", "x.safetensors", "new"))
        self.run_belay("import", "x.safetensors", "new", "--overwrite")

    def most_memory(self, *args):
        """Bytes that a command has held at once."""
        child = subprocess.Popen([BELAY, *args], cwd=self.dir.name,
                                 stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        return usage.ru_maxrss * 1024

    def test_memory_of_an_import_is_charged(self):
        self.export("x.safetensors", "--leave-out-others")
        os.environ["BELAY_MAX_METADATA_BYTES"] = "30000"
        self.addCleanup(os.environ.pop, "BELAY_MAX_METADATA_BYTES")
        err = self.fails("import", "x.safetensors", "imported")
        self.assertIn("the tensors take too much memory; if you trust the file,"
                      " allow more with BELAY_MAX_METADATA_BYTES (need ", err)
        os.environ["BELAY_MAX_METADATA_BYTES"] = "100000"
        self.run_belay("import", "x.safetensors", "imported")

    def test_memory_for_each_of_many_tensors(self):
        count = 40_000
        memory = {}
        for number in (1, count):
            header = json.dumps({
                f"model.layers.{i:06d}.weight":
                    {"dtype": "F32", "shape": [1],
                     "data_offsets": [4 * i, 4 * i + 4]}
                for i in range(number)}).encode()
            self.path("many.safetensors").write_bytes(
                struct.pack("<Q", len(header)) + header + bytes(4 * number))
            out = f"out_{number}"
            memory[number] = [
                self.most_memory("import", "many.safetensors", out),
                self.most_memory("copy", f"{out}/step_00000000", f"{out}_copy"),
                self.most_memory("plan", out, "--ranks", "1"),
                self.most_memory("plan", out, "--ranks", "4")]
        for i, most in enumerate((2900, 3900, 2300, 5000)):
            bytes_each = (memory[count][i] - memory[1][i]) / count
            self.assertLess(bytes_each, most)

    def test_errors(self):
        self.assertIn("no form for string; choose others with --keys, or "
                      "leave such values out with --leave-out-others",
                      self.fails("export", SHARED, "x.safetensors"))
        self.assertIn('--keys "max_file_bytes": matches no key',
                      self.fails("export", SHARED, "x.safetensors", "--keys",
                                 "max_file_bytes"))
        self.assertIn(": --max-file-bytes is too small for a header with",
                      self.fails("export", SHARED, "x.safetensors", "--keys",
                                 "w", "--max-file-bytes", "60"))
        self.assertIn("no such step", self.fails("export", "run", "x", "--step",
                                                 "99"))
        self.assertIn("need NAME=TEXT", self.fails(
            "export", SHARED, "x.safetensors", "--metadata", "format"))
        self.assertIn("unit not recognized", self.fails(
            "export", SHARED, "x.safetensors", "--max-file-bytes", "5x"))
        self.assertIn("no such file", self.fails("import", "x", "new"))
        self.path("bad.safetensors").write_bytes(
            struct.pack("<Q", 2) + b"{}" + b"rest")
        self.assertIn("need 0 bytes of data, found 4",
                      self.fails("import", "bad.safetensors", "new"))
        self.path("bad.safetensors.index.json").write_text(json.dumps(
            {"weight_map": {"a": "../bad.safetensors"}}))
        self.assertIn("is not in the directory of the index",
                      self.fails("import", "bad.safetensors.index.json", "new"))
        self.assertFalse(self.path("new").exists())
        self.assertFalse(self.path("x.safetensors").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
