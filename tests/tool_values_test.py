"""Tests belay show and belay diff on the golden checkpoints.

Usage: tool_values_test.py BELAY GOLDEN_DIR VERSION
Exact output and exit codes: 0 all is well, 1 a difference, 2 cannot be carried
out.
"""
import json
import struct
import sys
import unittest

import h5py

from tool_case import PER_TASK, SHARED, STRUCTS, ToolCase


class ToolValuesTest(ToolCase):
    def show(self, key, *options):
        """What follows the line about the array."""
        code, out, err = self.belay("show", SHARED, key, *options)
        self.assertEqual((code, err), (0, ""))
        head, _, rest = out.partition("\n\n")
        self.assertIn(f'"{key}": ', head)
        return rest

    def diff(self, *options):
        """Exit code and lines of comparing the shared steps of two runs."""
        code, out, err = self.belay("diff", SHARED, "other/step_00000007",
                                    *options)
        self.assertEqual(err, "")
        lines = out.splitlines()
        self.assertEqual(lines[:2],
                         [f"A: {SHARED}", "B: other/step_00000007"])
        return code, lines[2:]

    def test_show(self):
        self.assertEqual(
            self.belay("show", "run", "types/f32"),
            (0, '"types/f32": f32 [2, 3], 24 B, contiguous\n\n'
                "[[ 5.00e-01 -1.25e+00  3.00e+38]\n"
                " [ 1.00e-40  0.00e+00 -0.00e+00]]\n", ""))
        for key, text in (
                ("types", "17"), ("types/bf16", "[[1.  ]\n [3.14]]"),
                ("types/bool", "[ True False  True]"),
                ("types/c128", "[ 0.  +1.e+000j -3.25+1.e+300j]"),
                ("types/c64", "(1.5-2j)"),
                ("types/f16", "[ 1.00e+00 -2.00e+00  6.55e+04]"),
                ("types/f64", "0.1"), ("types/f8e4m3", "[   1. -448.]"),
                ("types/f8e5m2", "[ 1. -2.]"),
                ("types/i16", "[[[-32768]\n  [ 32767]]]"),
                ("types/i64", "-9223372036854775808"),
                ("types/i8", "[-128    0  127]"),
                ("types/u64",
                 "[18446744073709551615                    2]"),
                ("none", "[]"), ("empty text", '""'),
                ("text", '"gr\u00fc\u00df dich, belay"')):
            self.assertEqual(self.show(key), text + "\n")

    def test_show_structs(self):
        self.take(STRUCTS)
        code, out, err = self.belay("show", "run", "bodies")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.split("\n\n"), [
            '"bodies": u8 [4, 29], 116 B, contiguous\n'
            "structs of id:i64 place:f64[2] is_fixed:bool mass:f32",
            '"bodies.id": i64 [4], 32 B, field of "bodies", contiguous',
            "[   0    1    2 1000]",
            '"bodies.place": f64 [4, 2], 64 B, field of "bodies", contiguous',
            "[[  0.  -0.]\n [  1.  -1.]\n [  2.  -2.]\n [ 10. -10.]]",
            '"bodies.is_fixed": bool [4], 4 B, field of "bodies", contiguous',
            "[False  True False False]",
            '"bodies.mass": f32 [4], 16 B, field of "bodies", contiguous',
            "[0.  0.5 1.  5. ]\n"])
        code, out, err = self.belay("show", "run", "bodies.place", "--box",
                                    "1,2:1,1", "--stats")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("[[-1.]\n [-2.]]", out)
        self.assertIn("mean      -1.5", out)
        self.assertIn("  struct  [4, 29]", self.belay("ls", "run")[1])

    def test_show_a_box(self):
        self.assertEqual(
            self.belay("show", SHARED, "w", "--box", "4,2:5,3"),
            (0, '"w": i32 [6, 10], 240 B, 2 chunks of [6, 6]; box "4,2:5,3"'
                "\n\n[[45 46 47]\n [55 56 57]]\n", ""))
        self.assertEqual(self.show("w", "--box", "-:9,1"),
                         "[[ 9]\n [19]\n [29]\n [39]\n [49]\n [59]]\n")
        self.assertEqual(self.show("w", "--box", "2,0:-"), "[]\n")

    def test_show_abbreviates(self):
        self.assertEqual(self.show("w", "--max", "59"),
                         "[[ 0  1  2 ...  7  8  9]\n"
                         " [10 11 12 ... 17 18 19]\n"
                         " [20 21 22 ... 27 28 29]\n"
                         " [30 31 32 ... 37 38 39]\n"
                         " [40 41 42 ... 47 48 49]\n"
                         " [50 51 52 ... 57 58 59]]\n")
        self.assertEqual(self.show("w", "--max", "60").count("..."), 0)
        self.assertEqual(self.show("text", "--max", "9"),
                         '"gr\u00fc\u00df di"...\n')

    def test_show_escapes(self):
        self.copy()
        self.change("text", 0, b'"\\\n\t\x1b\xc3(\xc2\x85\xe2\x82\xac ')
        self.assertEqual(
            self.belay("show", "other/step_00000007", "text")[1].split("\n")[2],
            r'"\"\\\n\t\x1b\xc3(\xc2\x85' '\u20ac belay"')

    def test_show_statistics(self):
        def statistics(values, names=("min", "max")):
            labels = ("elements", *names, "mean", "zeros", "NaN", "infinite")
            return "".join(f"{label:<10}{value}\n"
                           for label, value in zip(labels, values))
        self.assertEqual(
            self.show("w", "--box", "0,2:-", "--stats").partition("\n\n")[2],
            statistics([20, 0, 19, 9.5, 1, 0, 0]))
        self.assertEqual(
            self.show("none", "--stats").partition("\n\n")[2],
            statistics([0, "none", "none", "none", 0, 0, 0]))
        self.assertEqual(
            self.show("types/c64", "--stats").partition("\n\n")[2],
            statistics([1, 2.5, 2.5, "(1.5-2j)", 0, 0, 0],
                       ("min |z|", "max |z|")))
        self.assertEqual(
            self.show("types/u64", "--stats").partition("\n\n")[2],
            statistics([2, 2, 2**64 - 1, 9.223372036854776e18, 0, 0, 0]))
        # NaN, -inf, 0.0 and three numbers.
        self.copy()
        self.change("types/f32", 0, struct.pack(
            "<6f", float("nan"), -float("inf"), 0, 1.5, -0.5, 5))
        code, out, err = self.belay("show", "other/step_00000007", "types/f32",
                                    "--stats")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(
            out.split("\n\n")[1:],
            ["[[ nan -inf  0. ]\n [ 1.5 -0.5  5. ]]",
             statistics([6, -0.5, 5.0, 1.5, 1, 1, 1])])

    def test_show_what_is_not_there(self):
        for args, message in (
                (["typos"], f'NOT_FOUND: read "{SHARED}": "typos": key is not '
                            'in the checkpoint (need one of 23); close to it: '
                            '"types"'),
                (["w", "--box", "0,6:0,11"],
                 'OUT_OF_RANGE: show "w": box "0,6:0,11": box reaches '
                 "past axis 1 of [6, 10] (need 11, found 10)"),
                (["w", "--box", "0,6"],
                 'INVALID_ARGUMENT: show "w": box "0,6": wrong number '
                 'of axes (need 2, found 1); write "offset,length" or "-" for '
                 "each axis, with ':' between them"),
                (["text", "--stats"],
                 'INVALID_ARGUMENT: show "text": a string has neither a box '
                 "nor statistics")):
            self.assertEqual(self.belay("show", SHARED, *args),
                             (2, "", f"belay: {message}\n"))

    def test_show_finds_damage(self):
        data = f"{SHARED}/data_00000_of_00001.h5"
        self.flip(data, "gr\u00fc\u00df dich, belay".encode())
        code, out, err = self.belay("show", SHARED, "text")
        self.assertEqual((code, err), (1, ""))
        damage, rest = out.splitlines()
        self.assertIn('damaged: read "run/step_00000007": checksum of key '
                      '"text", block 0', damage)
        self.assertEqual(rest,
                         '"text": not shown; --box shows other parts of an '
                         'array')
        self.assertEqual(self.show("types"), "17\n")

    def test_show_finds_damage_beside_what_it_shows(self):
        """A checksum is of a whole block, so also of what --box leaves out."""
        self.flip(f"{SHARED}/data_00000_of_00001.h5",
                  struct.pack("<3i", 3, 4, 5))
        for options in ([], ["--box", "4,2:5,3"], ["--stats"],
                        ["--max", "10"], ["--box", "4,2:5,3", "--stats"]):
            code, out, err = self.belay("show", SHARED, "w", *options)
            self.assertEqual((code, err), (1, ""))
            self.assertIn('damaged: read "run/step_00000007": checksum of key '
                          '"w", block 0', out)
            if "--max" in options:
                continue  # of these JSON has no values
            code, out, err = self.belay("show", SHARED, "w", "--json", *options)
            self.assertEqual((code, err), (1, ""))
            found = json.loads(out)
            self.assertEqual((found["values"], found["sound"]), (None, False))
            self.assertIn('checksum of key "w", block 0', found["damage"][0])

    def test_show_finds_damage_of_structs(self):
        self.take(STRUCTS)
        step, = self.run_dir.glob("step_*")
        data, = step.glob("data_*.h5")
        # The mass of the second body.
        self.flip(f"run/{step.name}/{data.name}",
                  struct.pack("<d?f", -1, True, 0.5))
        for key in "bodies", "bodies.mass", "bodies.id":
            code, out, err = self.belay("show", "run", key)
            self.assertEqual((code, err), (1, ""))
            self.assertIn('checksum of key "bodies", block 0', out)
        code, out, err = self.belay("show", "run", "bodies.place", "--box",
                                    "3,1:0,2")
        self.assertEqual(code, 1)

    def test_diff_of_equal_values(self):
        expected = (0, f"A: {SHARED}\nB: {PER_TASK}\nequal: 23 arrays, 414 B, "
                       "all values\n", "")
        self.assertEqual(self.belay("diff", SHARED, "run"), expected)
        self.assertEqual(self.belay("diff", SHARED, PER_TASK), expected)
        self.assertEqual(
            self.belay("diff", SHARED, "run", "--keys")[1].splitlines()[-1],
            "equal: 23 arrays, 414 B, keys, dtypes and shapes")

    def test_diff_of_structs(self):
        self.take(STRUCTS)
        self.copy(STRUCTS)
        row = struct.pack("<q2d?f", 2, 2.0, -2.25, False, 1.5)
        self.change("bodies", 2, row)
        code, out, err = self.belay("diff", "run", "other")
        self.assertEqual((code, err), (1, ""))
        self.assertEqual(out.splitlines()[2:-1], [
            'values of "bodies.place": 1 of 8 elements differ, first at '
            "[2, 1]: -2.0 in A, -2.25 in B",
            'values of "bodies.mass": 1 of 4 elements differ, first at [2]: '
            "1.0 in A, 1.5 in B"])
        out = self.belay("diff", "run", "other", "--tolerance", "0.3")[1]
        self.assertEqual(out.splitlines()[2:-1], [
            'values of "bodies.mass": 1 of 4 elements differ by more than 0.3, '
            "most at [2] by 0.5: 1.0 in A, 1.5 in B"])

    def test_diff_of_values(self):
        self.copy()
        self.change("types/f32", 1, struct.pack("<2f", -1.0, 2.5e38))
        self.change("types/i8", 2, struct.pack("<b", 125))
        self.change("text", 5, b"!")
        self.assertEqual(self.diff(), (1, [
            'text of "text": differs from byte 5 on; 18 bytes in A, 18 in B',
            'values of "types/f32": 2 of 6 elements differ, first at [0, 1]: '
            "-1.25 in A, -1.0 in B",
            'values of "types/i8": 1 of 3 elements differ, first at [2]: 127 '
            "in A, 125 in B",
            "different: 0 only in A, 0 only in B, 0 of another type or shape, "
            "3 with other values; 20 equal"]))
        self.assertEqual(self.diff("--tolerance", "1.5"), (1, [
            'text of "text": differs from byte 5 on; 18 bytes in A, 18 in B',
            'values of "types/f32": 1 of 6 elements differ by more than 1.5, '
            "most at [0, 2] by 4.999999333082606e+37: 3e+38 in A, 2.5e+38 in B",
            'values of "types/i8": 1 of 3 elements differ by more than 1.5, '
            "most at [2] by 2.0: 127 in A, 125 in B",
            "different: 0 only in A, 0 only in B, 0 of another type or shape, "
            "3 with other values; 20 equal"]))
        self.assertEqual(self.diff("--keys"), (
            0, ["equal: 23 arrays, 414 B, keys, dtypes and shapes"]))

    def test_diff_within_the_tolerance(self):
        self.copy()
        self.change("types/f64", 0, struct.pack("<d", 0.1 + 1e-9))
        self.change("types/u64", 0, struct.pack("<Q", 2**64 - 3))
        self.change("types/c64", 0, struct.pack("<2f", 1.5 + 3, -2 + 4))
        self.assertEqual(self.diff("--tolerance", "5"), (
            0, ["equal: 23 arrays, 414 B, values within the tolerance"]))
        self.assertEqual(self.diff("--tolerance", "4.5")[1][0],
                         'values of "types/c64": 1 of 1 elements differ by '
                         "more than 4.5, most at [] by 5.0: (1.5-2j) in A, "
                         "(4.5+2j) in B")
        self.assertEqual(len(self.diff("--tolerance", "1")[1]), 3)
        self.assertEqual(len(self.diff("--tolerance", "0")[1]), 4)

    def test_diff_of_zeros_and_nan(self):
        # -0.0 is 0.0 but not the same bits; a NaN is near no number.
        self.copy()
        self.change("types/f32", 4, struct.pack("<f", -0.0))
        self.assertEqual(self.diff()[0], 1)
        self.assertEqual(self.diff("--tolerance", "0")[0], 0)
        self.change("types/f32", 4, struct.pack("<f", float("nan")))
        self.assertEqual(self.diff("--tolerance", "1e300")[1][0],
                         'values of "types/f32": 1 of 6 elements differ by '
                         "more than 1e+300, most at [1, 1] by inf: 0.0 in A, "
                         "nan in B")

    def test_diff_of_structure(self):
        self.copy()
        index = self.path("other/step_00000007/index.h5")
        with h5py.File(index) as opened:
            keys = [k.decode() for k in opened[".belay/arrays/key"][:]]
            shapes = opened[".belay/arrays/shape"][:].tolist()
            boxes = opened[".belay/datasets/box"][:].tolist()
        self.patch_index("arrays/key", keys.index("none"), b"nonf")
        self.patch_index("arrays/dtype", keys.index("types/i32"), b"\x0d")
        at = [i for i in range(len(shapes)) if shapes[i:i + 3] == [1, 2, 1]][0]
        self.patch_index("arrays/shape", at, struct.pack("<3q", 2, 1, 1))
        at = [i for i in range(len(boxes)) if boxes[i:i + 3] == [1, 2, 1]][0]
        self.patch_index("datasets/box", at, struct.pack("<3q", 2, 1, 1))
        code, lines = self.diff()
        self.assertEqual((code, lines), (1, [
            'only in A: "none" f64 [3, 0]', 'only in B: "nonf" f64 [3, 0]',
            'shape of "types/i16": [1, 2, 1] in A, [2, 1, 1] in B',
            'dtype of "types/i32": i32 in A, u32 in B',
            "different: 1 only in A, 1 only in B, 2 of another type or shape, "
            "0 with other values; 20 equal"]))
        self.assertEqual(self.diff("--keys"), (code, lines))

    def test_diff_of_damage(self):
        self.copy()
        self.flip("other/step_00000007/data_00000_of_00001.h5",
                  "gr\u00fc\u00df dich, belay".encode())
        for a, b in ("run", "other"), ("other", "run"):
            code, out, err = self.belay("diff", f"{a}/step_00000007",
                                        f"{b}/step_00000007")
            self.assertEqual(code, 2)
            self.assertEqual(len(out.splitlines()), 2)
            self.assertIn('DATA_LOSS: read "other/step_00000007": checksum of '
                          'key "text"', err)
        code, out, err = self.belay("diff", "run", "none")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("NOT_FOUND", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
