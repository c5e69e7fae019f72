"""Tests the belay command on directories of several steps.

Usage: tool_steps_test.py BELAY GOLDEN_DIR VERSION
"""
import json
import os
import shutil
import subprocess
import unittest

from tool_case import BELAY, PER_TASK, SHARED, STRUCTS, TIME, ToolCase


class StepsTest(ToolCase):
    def test_verify_all_steps(self):
        code, out, err = self.belay("verify", "--all", "run")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.splitlines(), [
            f"{step}: 23 arrays, 21 blocks, 414 B: all checksums match"
            for step in (SHARED, PER_TASK)] + ["0 of 2 steps damaged"])
        self.flip(f"{SHARED}/index.h5", b"odd/100%/a@b")
        code, out, err = self.belay("verify", "-q", "--all", "run")
        self.assertEqual((code, err), (1, ""))
        self.assertIn(f'read "{SHARED}/index.h5": the index is damaged', out)
        self.assertTrue(out.endswith("1 of 2 steps damaged\n"))
        code, out, err = self.belay("verify", "--json", "--all", "run")
        self.assertEqual(
            (code, [step["sound"] for step in json.loads(out)["steps"]]),
            (1, [False, True]))

    def test_verify_tells_of_a_step_under_the_number_of_another(self):
        os.rename(self.path(SHARED), self.path("run/step_00000009"))
        text = ("damaged: the index is of another step (need 9, found 7), so "
                "no restore by number takes it\n")
        for arguments in ["--all", "run"], ["run"], ["run", "--step", "9"]:
            shutil.rmtree(self.path(PER_TASK), ignore_errors=True)
            code, out, err = self.belay("verify", *arguments)
            self.assertEqual((code, err), (1, ""))
            self.assertIn(text, out)
        # A restore from the path itself takes it.
        self.assertEqual(self.belay("verify", "-q", "run/step_00000009"),
                         (0, "", ""))

    def test_a_step_that_cannot_be_read_is_not_damaged(self):
        # The index of the other step has more bytes of metadata.
        self.take(SHARED, STRUCTS)
        os.environ["BELAY_MAX_METADATA_BYTES"] = "30000"
        self.addCleanup(os.environ.pop, "BELAY_MAX_METADATA_BYTES")
        code, out, err = self.belay("steps", "run")
        self.assertEqual(code, 1)
        lines = out.splitlines()[1:]
        self.assertEqual([line.split()[2] for line in lines],
                         ["unreadable", "116"], out + err)
        code, out, err = self.belay("verify", "--all", "run")
        self.assertEqual((code, err), (1, ""))
        self.assertTrue(out.startswith("unreadable: "), out)
        self.assertTrue(out.endswith("0 of 2 steps damaged, 1 unreadable\n"))

    def test_a_step_of_a_directory_by_its_number(self):
        for command in ["ls"], ["verify"], ["graph"], ["show", "types"]:
            for number, step in (7, SHARED), (100000008, PER_TASK):
                self.assertEqual(
                    self.belay(command[0], "run", *command[1:], "--step",
                               str(number)),
                    self.belay(command[0], step, *command[1:]))
        self.assertEqual(
            self.fails("ls", "run", "--step", "8"),
            'belay: NOT_FOUND: open step 8 of "run": no such step (2 steps, 7 '
            "to 100000008)\n")
        shutil.copytree(self.path(SHARED), self.path("run/best_00000007"))
        self.assertIn("several series have it; name \"run/best_00000007\"",
                      self.fails("ls", "run", "--step", "7"))

    def test_steps(self):
        code, out, err = self.belay("steps", "run")
        self.assertEqual((code, err), (0, ""))
        head, *lines = out.splitlines()
        self.assertEqual(head.split(), ["step", "arrays", "bytes", "saved",
                                        "directory"])
        self.assertEqual([line.split() for line in lines],
                         [[number, "23", "414", "B", *TIME.split(), step]
                          for number, step in (("7", SHARED),
                                               ("100000008", PER_TASK))])
        self.flip(f"{SHARED}/index.h5", b"odd/100%/a@b")
        code, out, err = self.belay("steps", "--json", "run")
        self.assertEqual(
            [(step["step"], step["arrays"], step["time"])
             for step in json.loads(out)["steps"]],
            [(7, None, None), (100000008, 23, TIME)])
        self.assertEqual(code, 1)
        self.assertIn("the index is damaged", err)
        self.assertIn("need a directory of steps", self.fails("steps", SHARED))

    def test_output_that_cannot_be_written_is_an_error(self):
        for arguments in ["ls", SHARED], ["ls", "--json", SHARED], ["--help"]:
            with open("/dev/full", "w") as full:
                done = subprocess.run([BELAY, *arguments], cwd=self.dir.name,
                                      stdout=full, stderr=subprocess.PIPE,
                                      check=False)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(b"write the output", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=["tool_steps_test.py"])
