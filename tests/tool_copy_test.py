"""Tests `belay copy` and `belay convert` on the golden checkpoints.

Usage: tool_copy_test.py BELAY GOLDEN_DIR VERSION
"""
import json
import pathlib
import subprocess
import sys
import unittest

import h5py
import numpy as np

import tool_case
from tool_case import SHARED, ToolCase

MPIRUN = pathlib.Path(__file__).parent.parent / "mpi_tests" / "mpirun.sh"


class CopyTest(ToolCase):
    def rules(self, rules):
        self.path("rules.json").write_text(json.dumps({"rules": rules}))
        return "rules.json"

    def array(self, step, name):
        with h5py.File(self.path(step) / "index.h5") as index:
            return np.asarray(index[name][()])

    def test_copy(self):
        out = self.run_belay("copy", SHARED, "to")
        self.assertEqual(out.splitlines()[0].split(",")[0],
                         f"to/{pathlib.Path(SHARED).name}: step 7")
        self.run_belay("diff", SHARED, "to")
        self.assertIn("sound", self.run_belay("verify", "--json", "to"))
        err = self.fails("copy", SHARED, "to")
        self.assertIn("add --overwrite", err)
        self.run_belay("copy", SHARED, "to", "--overwrite", "--to-step", "7")
        err = self.fails("copy", "to", "to", "--overwrite", "--step", "7")
        self.assertIn('step_00000007" is the source of the copy', err)
        self.run_belay("copy", SHARED, "to", "--to-step", "9")
        self.assertEqual(
            json.loads(self.run_belay("ls", "--json", "to"))["step"], 9)

    def test_a_copy_of_nothing_is_an_error(self):
        err = self.fails("copy", SHARED, "to", "--keys", "types/.*",
                         "--leave-out", ".*")
        self.assertIn("select nothing (need at least 1 of 23 values, found 0)",
                      err)
        self.assertFalse(self.path("to").exists())

    def test_copy_under_mpirun(self):
        done = subprocess.run(
            [MPIRUN, "3", tool_case.BELAY, "copy", SHARED, "to", "--files",
             "task", "--json", "--scratch", "."],
            cwd=self.dir.name, text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["left_out"], 0)
        self.run_belay("diff", SHARED, "to")
        self.assertEqual(len(list(self.path("to").glob("*/data*.h5"))), 3)

    def test_values_that_a_dtype_does_not_have(self):
        self.run_belay("copy", SHARED, "to", "--dtype", "types/f64=f32",
                       "--strict-dtype")
        arguments = ("copy", SHARED, "small", "--dtype", "types/i64=i8")
        err = self.fails(*arguments, "--strict-dtype")
        self.assertIn("1 of 1 i64 values is outside the range of i8 and becomes "
                      "-128 or 127 (such as -9223372036854775808)", err)
        self.assertIn("or turn --strict-dtype off", err)
        self.assertEqual(list(self.path("small").glob("step*")), [])
        done = subprocess.run([tool_case.BELAY, *arguments], text=True,
                              cwd=self.dir.name, capture_output=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"types/i64": 1 of 1 i64 values is outside', done.stdout)
        self.assertIn("belay: warning: save ", done.stderr)

    def test_select(self):
        found = json.loads(self.run_belay(
            "copy", SHARED, "to", "--keys", "types/.*", "--leave-out",
            "types/.(8|16)", "--dtype", "types/f64=f32", "--json"))
        keys = {one["key"]: one["dtype"] for one in json.loads(
            self.run_belay("ls", "--json", "to"))["arrays"]}
        self.assertEqual(found["copied"], len(keys))
        self.assertEqual(keys["types/f64"], "f32")
        self.assertEqual(keys["types/f32"], "f32")
        self.assertNotIn("types/u8", keys)
        self.assertGreater(found["left_out"], 4)

    def test_convert(self):
        two = ["types/f32", "types/f64"]
        shape = self.array(SHARED, two[0]).shape
        self.run_belay("convert", self.rules([
            {"keys": "types/(f.*)", "make": {"\\1/twice": {
                "stack": ["types/\\1", "types/\\1"]}}},
            {"make": {"all": {"stack": [{"all": "types/f32"}] * 2}}},
        ]), SHARED, "to", "--to-step", "1")
        step = "to/step_00000001"
        for key in two:
            once = self.array(SHARED, key)
            twice = self.array(step, key.replace("types/", "") + "/twice")
            np.testing.assert_array_equal(twice, np.stack([once, once]))
        self.assertEqual(self.array(step, "all").shape, (2, *shape))

    def test_rules_that_make_too_much(self):
        err = self.fails("convert", self.rules([{"make": {"x": {
            "stack": [{"all": "types/.*"}] * 10_000}}}]), SHARED, "to")
        self.assertIn('rules[0].make["x"].stack[', err)
        self.assertIn("the lists name too many keys (need at most 65904 for 23 "
                      "stored ones)", err)
        err = self.fails("convert", self.rules([
            {"keys": "types/(.*)", "make": {
                f"\\1/{i}": {"concat": ["types/\\1"]}
                for i in range(5000)}}]), SHARED, "to")
        self.assertIn("the rules make too much (need at most 65904 stored "
                      "arrays and functions for 23 stored values, found ", err)

    def test_rules_of_long_texts(self):
        make = {"make": {"x": {"concat": ["types/f32"]}}}
        large = "(abcdefghijklmnopqrstuvwxyz){1000}|types/f32"
        err = self.fails("convert", self.rules([
            dict(make, keys=f"{large}|{i}") for i in range(300)]), SHARED, "to")
        self.assertIn("the regular expressions are too large (need at most "
                      "64.0 MiB for all", err)
        err = self.fails("convert", self.rules([
            {"keys": "x" * 40_000, "make": {str(i): "types/f32"
                                            for i in range(2000)}}]),
            SHARED, "to")
        self.assertIn("the expressions and keys of all rules are too long "
                      "(need at most 64.0 MiB)", err)
        err = self.fails("convert", self.rules([
            {"keys": "(types/f.*)", "make": {
                "\\1" * 1_000_000 + str(i): {"concat": ["types/f32"]}
                for i in range(5)}}]), SHARED, "to")
        self.assertIn("the rules make keys that are too long (need at most ",
                      err)
        self.assertLess(len(err), 2000)

    def test_mistakes(self):
        err = self.fails("convert", self.rules([{"make": {"x": {"stck": []}}}]),
                         SHARED, "to")
        self.assertIn('convert "rules.json": rules[0].make["x"]: need a', err)
        self.assertIn("absent.json",
                      self.fails("convert", "absent.json", SHARED, "to"))
        self.assertIn('--keys "nothing"',
                      self.fails("copy", SHARED, "to", "--keys", "nothing"))
        self.assertIn('--leave-out "nothing": matches no key',
                      self.fails("copy", SHARED, "to", "--leave-out", "nothing"))
        self.assertIn("need KEYS=DTYPE",
                      self.fails("copy", SHARED, "to", "--dtype", ".*"))
        self.assertIn('--dtype: parse dtype "f31": unknown name (need one of '
                      "f16, bf16, ",
                      self.fails("copy", SHARED, "to", "--dtype", ".*=f31"))
        code, out, _ = self.belay("copy", "absent", "to", "--json")
        self.assertEqual(code, 2)
        self.assertEqual(json.loads(out)["error"]["code"], "NOT_FOUND")
        self.assertFalse(self.path("to").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
