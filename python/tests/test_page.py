"""The code of docs/python.md runs as it stands there."""

import contextlib
import io
import os
import re

from mpi_case import COMM, MpiCase, main

import belay

try:
  import torch
except ImportError:
  torch = None

PAGE = os.path.join(os.path.dirname(__file__), "../../docs/python.md")


class PageTest(MpiCase):

  def test_code(self):
    with open(PAGE, encoding="utf-8") as file:
      blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
    self.assertGreater(len(blocks), 6)
    before = os.getcwd()
    os.chdir(self.dir)
    names = {}
    for block in blocks:
      if torch is None and "import torch" in block:
        continue
      with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, PAGE, "exec"), names)
    COMM.Barrier()
    self.assertEqual(belay.list_steps("run"), [7, 8])
    self.assertEqual(belay.list_steps("managed"), [20, 30, 40])
    self.assertEqual((names["newest"], names["best"]), (40, 40))
    self.assertEqual(names["seed"], self.rank)
    self.assertEqual(names["particles"].shape, (self.rank, 3))
    self.assertEqual(belay.list_steps("background"), [0, 1, 2])
    self.assertEqual([belay.open(f"rebuilt/step_{step:08d}")["w"][:].tolist()
                      for step in range(3)],
                     [[1.0] * 3, [2.0] * 3, [3.0] * 3])
    self.assertEqual(names["result"].step, 2)
    self.assertEqual(names["step"], 2)
    self.assertTrue(names["fresh"])
    self.assertEqual(names["corner"].shape, (2, 3))
    self.assertTrue((names["table"][10:20, 1:] == 5).all())
    self.assertEqual(names["everything"]["step"], 7)
    COMM.Barrier()
    os.chdir(before)


if __name__ == "__main__":
  main()
