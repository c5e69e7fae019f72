"""Saves in the background."""

import gc
import os

import numpy
from mpi_case import COMM, MpiCase, main

import belay


class AsyncTest(MpiCase):

  def setUp(self):
    super().setUp()
    self.w = numpy.zeros((1000, 10))

  def state(self, step):
    self.w[...] = 10 * step + self.rank
    return {"w": belay.Piece(self.w, (1000 * self.size, 10),
                             (1000 * self.rank, 0)), "step": step}

  def check(self, step):
    stored = belay.open(os.path.join(self.run_dir, f"step_{step:08}"))
    self.assertEqual(stored["step"][()], step)
    expected = numpy.repeat(10 * step + numpy.arange(self.size), 1000)
    numpy.testing.assert_array_equal(stored["w"][:, 3], expected)

  def test_values_may_change_after_save(self):
    with belay.AsyncSaver(COMM) as saver:
      for step in range(4):
        pending = saver.save(self.run_dir, step, self.state(step))
        self.assertEqual(pending.step, step)
        self.assertFalse(pending.done)
        self.assertTrue(saver.is_pending)
        self.w[...] = -1
        gc.collect()
        while (result := pending.poll()) is None:
          pass
        self.assertEqual(result.step, step)
        self.assertTrue(pending.done)
        self.assertEqual(pending.wait().step, step)
        self.assertFalse(saver.is_pending)
    for step in range(4):
      self.check(step)

  def test_next_save_waits_for_the_one_before(self):
    with belay.AsyncSaver(COMM) as saver:
      first = saver.save(self.run_dir, 0, self.state(0))
      second = saver.save(self.run_dir, 1, self.state(1))
      self.assertTrue(first.done)
      self.assertEqual(first.wait().step, 0)
      self.assertEqual(saver.wait().step, 1)
      self.assertEqual(second.poll().step, 1)
      self.assertIsNone(saver.wait())
      self.assertIsNone(saver.poll())
    self.check(0)
    self.check(1)

  def test_close_waits(self):
    saver = belay.AsyncSaver(COMM, max_bytes_per_second=10**9)
    pending = saver.save(self.run_dir, 3, self.state(3))
    saver.close()
    saver.close()
    self.assertEqual(pending.wait().step, 3)
    self.check(3)
    self.assert_fails("FAILED_PRECONDITION", "closed", saver.save, self.run_dir,
                      4, {})

  def test_lazy_snapshot_keeps_the_arrays(self):
    with belay.AsyncSaver(COMM, snapshot="lazy") as saver:
      for step in range(3):
        state = {"w": numpy.full((1000, 10), 10.0 * step), "step": step}
        saver.save(self.run_dir, step, state)
        del state  # the saver holds the array
        gc.collect()
        saver.wait_for_snapshot()
        numpy.full((1000, 10), -1.0)
      saver.wait()
    for step in range(3):
      stored = belay.open(os.path.join(self.run_dir, f"step_{step:08}"))
      self.assertTrue((stored["w"][...] == 10 * step).all())

  def test_what_is_not_done_in_background(self):
    with belay.AsyncSaver(COMM) as saver:
      pending = saver.save(self.run_dir, 0, self.state(0), transfer="hdf5")
      self.assertTrue(pending.done)
      self.assertNotEqual(pending.note, "")
      self.assertEqual(pending.poll().step, 0)
    self.check(0)

  def test_errors(self):
    last = self.rank == self.size - 1
    with belay.AsyncSaver(COMM) as saver:
      self.assert_fails("INVALID_ARGUMENT", "of type object", saver.save,
                        self.run_dir, 0, {"a": object() if last else 1})
      first = saver.save(self.run_dir, 0, self.state(0))
      self.assert_fails("INVALID_ARGUMENT", "of type object", saver.save,
                        self.run_dir, 1, {"a": object() if last else 1})
      self.assertEqual(first.wait().step, 0)
      second = saver.save(self.run_dir, 2, self.state(2))
      self.assert_fails("ALREADY_EXISTS", "step_00000000", saver.save,
                        self.run_dir, 0, self.state(0))
      self.assertEqual(second.wait().step, 2)

      def refuse(directory, step):
        raise ValueError("not now")

      failing = saver.save(self.run_dir, 5, self.state(5), before_commit=refuse)
      self.assert_fails("INVALID_ARGUMENT", "not now", failing.wait)
      self.assert_fails("INVALID_ARGUMENT", "not now", failing.poll)
      self.assertFalse(saver.is_pending)
      failing = saver.save(self.run_dir, 5, self.state(5), before_commit=refuse)
      self.assert_fails("INVALID_ARGUMENT", "not now", saver.save, self.run_dir,
                        6, self.state(6))
      saver.save(self.run_dir, 6, self.state(6))
      self.assert_fails("INVALID_ARGUMENT", "not now", failing.wait)
    self.assertEqual(belay.list_steps(self.run_dir), [0, 2, 6])
    self.assert_fails("INVALID_ARGUMENT", "snapshot", belay.AsyncSaver, COMM,
                      snapshot="later")

  def test_an_exception_gives_up(self):
    with self.assertRaises(ZeroDivisionError):
      with belay.AsyncSaver(COMM) as saver:
        saver.save(self.run_dir, 0, self.state(0))
        raise ZeroDivisionError()
    COMM.Barrier()
    belay.save(COMM, self.run_dir, 1, self.state(1))
    self.check(1)


if __name__ == "__main__":
  main()
