"""What examples/python/look.py prints and draws. Usage: look_test.py PROGRAM"""

import importlib.util
import os
import subprocess
import sys

import numpy
from mpi_case import COMM, MpiCase, main

import belay

PROGRAM = sys.argv.pop(1)


class LookTest(MpiCase):

  def setUp(self):
    super().setUp()
    rows = numpy.zeros((40, 6))
    rows[:20] = numpy.arange(6)
    structs = numpy.zeros(3, [("x", "f8"), ("n", "i4")])
    belay.save(COMM, self.run_dir, 4, {
        "w": rows, "odd": numpy.array([1, numpy.nan, numpy.inf, 3]),
        "z": numpy.array([[3 + 4j]]), "empty": numpy.zeros((0, 2)),
        "huge": numpy.array([-1.7e308, 1.7e308]),
        "far": 1e9 + numpy.arange(2.0),
        "step": 4, "yes": True, "name": "small", "p": belay.Rows(structs)})

  def look(self, *arguments):
    """Returns exit code and output of the program."""
    done = subprocess.run([sys.executable, "-B", PROGRAM, *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, done.stdout

  def test_table(self):
    code, said = self.look(self.run_dir)
    self.assertEqual(code, 0, said)
    lines = {line.split()[0]: line for line in said.splitlines()}
    self.assertIn("step_00000004: step 4, 10 arrays", said)
    self.assertIn("mean 1.25, deviation 1.74", lines["w"])
    self.assertIn("mean 2, deviation 1", lines["odd"])
    self.assertIn("mean 5,", lines["z"])
    self.assertIn("mean 1e+09, deviation 0.5", lines["far"])
    self.assertIn("-1.7e+308 |", lines["huge"])
    self.assertIn("no finite number", lines["empty"])
    self.assertIn("'small'", lines["name"])
    self.assertIn("structs of x, n", lines["p"])

  def test_map(self):
    code, said = self.look(self.run_dir, "w")
    self.assertEqual(code, 0, said)
    lines = said.splitlines()
    self.assertEqual(lines[0], "w: float64 [40, 6], from ' ' 0 to '@' 5")
    self.assertEqual(len(lines), 25)
    self.assertEqual((lines[1], lines[-1]), ("| .-+#@|", "|      |"))
    self.assertEqual(self.look(self.run_dir, "step")[0], 0)
    code, said = self.look(self.run_dir, "v")
    self.assertEqual(code, 1)
    self.assertIn("has no v; it has ", said)
    self.assertEqual(self.look(self.run_dir, "huge")[0], 0)
    self.assertEqual(self.look(self.run_dir, "name"), (0, "name: 'small'\n"))
    self.assertIn("nothing to draw", self.look(self.run_dir, "empty")[1])

  def test_png(self):
    path = os.path.join(self.dir, "w.png")
    code, said = self.look(self.run_dir, "w", "--png", path)
    self.assertEqual(code, 0, said)
    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    self.assertEqual(os.path.exists(path), has_matplotlib)
    self.assertEqual("no matplotlib" in said, not has_matplotlib)


if __name__ == "__main__":
  main()
