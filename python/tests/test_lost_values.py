"""Values that another dtype does not have: told, or refused."""

import os

import numpy
from mpi_case import COMM, MpiCase, main

import belay

ARGS = {"w": {"dtype": "f16"}}


class LostValuesTest(MpiCase):

  def setUp(self):
    super().setUp()
    self.w = numpy.full(10, 0.1, dtype="float32")

  def state(self, w=None):
    w = self.w if w is None else w
    return {"w": belay.Piece(w, (10 * self.size,), (10 * self.rank,))}

  def put_large(self):
    if self.rank == self.size - 1:
      self.w[2:5] = [1e6, -1e6, numpy.nan]

  def large(self, path):
    return (f'save "{path}": "w": 2 of {10 * self.size} f32 values are too '
            "large for f16 and become infinite (such as 1e+06)")

  def step(self, number):
    return os.path.join(self.run_dir, f"step_{number:08d}")

  def test_save(self):
    first = belay.save(COMM, self.run_dir, 1, self.state(), args=ARGS,
                       strict_dtype=True)
    self.assertEqual(first.warnings, [])
    self.put_large()
    with self.assertLogs("belay", "WARNING") if self.rank == 0 else (
        self.assertNoLogs("belay", "WARNING")) as logs:
      saved = belay.save(COMM, self.run_dir, 2, self.state(), args=ARGS)
    self.assertEqual(saved.warnings, [self.large(self.step(2))])
    if self.rank == 0:
      self.assertEqual([one.getMessage() for one in logs.records],
                       saved.warnings)
    self.assert_fails("FAILED_PRECONDITION", self.large(self.step(3)),
                      belay.save, COMM, self.run_dir, 3, self.state(),
                      args=ARGS, strict_dtype=True)
    self.assertEqual(belay.list_steps(self.run_dir), [1, 2])

  def test_restore(self):
    self.put_large()
    belay.save(COMM, self.run_dir, 1, self.state())
    into = numpy.zeros(10, dtype="int32")
    found = belay.restore(COMM, self.run_dir, self.state(into),
                          allow_dtype_cast=True)
    self.assertEqual(len(found.warnings), 1)
    self.assertIn("is NaN or infinite and becomes 0", found.warnings[0])
    self.assertIn("lose their fraction in i32", found.warnings[0])
    self.assert_fails("FAILED_PRECONDITION", "lose their fraction in i32",
                      belay.restore, COMM, self.run_dir, self.state(into),
                      allow_dtype_cast=True, strict_dtype=True)
    wide = numpy.zeros(10, dtype="float64")
    found = belay.restore(COMM, self.run_dir, self.state(wide),
                          allow_dtype_cast=True, strict_dtype=True)
    self.assertEqual(found.warnings, [])

  def test_background(self):
    self.put_large()
    with belay.AsyncSaver(COMM) as saver:
      self.assert_fails("FAILED_PRECONDITION", self.large(self.step(1)),
                        saver.save, self.run_dir, 1, self.state(), args=ARGS,
                        strict_dtype=True)
      saver.save(self.run_dir, 2, self.state(), args=ARGS)
      self.assertEqual(saver.wait().warnings, [self.large(self.step(2))])
    self.assertEqual(belay.list_steps(self.run_dir), [2])

  def test_copy(self):
    self.put_large()
    belay.save(COMM, self.run_dir, 1, self.state())
    to = os.path.join(self.dir, "copy")
    self.assert_fails("FAILED_PRECONDITION", "too large for f16",
                      belay.copy_checkpoint, COMM, self.run_dir, to, args=ARGS,
                      strict_dtype=True)
    self.assertFalse(os.path.exists(os.path.join(to, "step_00000001")))
    copied = belay.copy_checkpoint(COMM, self.run_dir, to, args=ARGS)
    self.assertEqual(len(copied.saved.warnings), 1)


if __name__ == "__main__":
  main()
