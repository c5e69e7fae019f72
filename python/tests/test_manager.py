"""The checkpoints of a run."""

import gc
import os
import shutil
import signal

import numpy
from mpi_case import COMM, MpiCase, main

import belay


class ManagerTest(MpiCase):

  def setUp(self):
    super().setUp()
    self.piece = belay.Piece(numpy.zeros((2, 3)), (2 * self.size, 3),
                             (2 * self.rank, 0))

  def state(self, step):
    self.piece.array[...] = 10 * step + self.rank
    return {"w": self.piece, "step": step}

  def open(self, **options):
    return belay.CheckpointManager(COMM, self.run_dir, **options)

  def test_loop(self):
    with self.open(max_to_keep=2, save_interval_steps=3) as manager:
      fresh = self.state(0)
      restored = manager.restore(fresh)
      self.assertIsNone(restored.step)
      self.assertIs(restored.state, fresh)
      asked = []
      for step in range(10):
        if manager.should_save(step):
          asked.append(step)
          saved = manager.save(step, self.state(step))
          self.assertEqual(saved.outcome, "saved")
          self.assertEqual(saved.result.step, step)
      self.assertEqual(asked, [0, 3, 6, 9])
      self.assertEqual(manager.save(10, self.state(10)).outcome, "skipped")
      self.assertEqual(manager.steps(), [6, 9])
      self.assertEqual(manager.latest_step(), 9)
      self.assertIsNone(manager.should_stop())
      self.assertTrue(manager.step_path(9).endswith("step_00000009"))
    with self.open() as manager:
      self.piece.array[...] = -1
      restored = manager.restore({"w": self.piece, "step": 0})
      self.assertEqual((restored.step, restored.state["step"]), (9, 9))
      self.assertTrue((self.piece.array == 90 + self.rank).all())
      self.assertEqual(restored.result.num_arrays, 2)

  def test_best_and_metrics(self):
    with self.open(max_to_keep=1, best_metric="loss", best_mode="min") as one:
      for step, loss in enumerate([3.0, 1.0, 2.0]):
        one.save(step, self.state(step), metrics={"loss": loss})
      self.assertEqual(one.best_step(), 1)
      self.assertEqual(one.step_metrics(1), {"loss": 1.0})
      self.assertIn(1, one.steps())
      self.assertNotIn(0, one.steps())

  def test_force_delete_and_older_steps(self):
    with self.open(save_interval_steps=5, newer_steps="delete") as manager:
      for step in (0, 1, 2):
        manager.save(step, self.state(step), force=True)
      manager.delete(1)
      self.assertEqual(manager.steps(), [0, 2])
      restored = manager.restore(self.state(0), step=0)
      self.assertEqual((restored.step, restored.deleted), (0, [2]))
      self.assertEqual(restored.state["step"], 0)
      self.assert_fails("NOT_FOUND", "", manager.restore, self.state(0),
                        step=7)
      manager.reload()

  def test_notes_name_options_of_python(self):
    with self.open() as manager:
      for step in (0, 1):
        manager.save(step, self.state(step))
      manager.restore(self.state(0), step=0)
      saved = manager.save(2, self.state(2))
      [note] = saved.notes
      self.assertIn("; the option newer_steps says what", note)

  def test_damaged_step_is_skipped(self):
    with self.open() as manager:
      for step in (1, 2):
        manager.save(step, self.state(step))
      if self.rank == 0:
        path = manager.step_path(2)
        for name in os.listdir(path):
          if name.startswith("data_"):
            os.remove(os.path.join(path, name))
      COMM.Barrier()
      restored = manager.restore({"w": self.piece, "step": 0})
      self.assertEqual(restored.step, 1)
      self.assertEqual([step for step, _ in restored.skipped], [2])
      self.assertIsInstance(restored.skipped[0][1], belay.Error)
      self.assertTrue((self.piece.array == 10 + self.rank).all())

  def test_in_background(self):
    for options in (True, {"snapshot": "lazy"}):
      if self.rank == 0:
        shutil.rmtree(self.run_dir, ignore_errors=True)
      COMM.Barrier()
      with self.open(async_save=options, max_to_keep=2) as manager:
        ended = []
        for step in range(5):
          state = self.state(step)
          saved = manager.save(step, state)
          self.assertEqual(saved.outcome, "begun")
          del state
          gc.collect()
          manager.wait_for_snapshot()
          self.piece.array[...] = -5
          if saved.finished:
            ended.append(saved.finished.step)
        last = manager.wait()
        ended.append(last.result.step)
        self.assertEqual(ended, list(range(5)))
        self.assertEqual(manager.steps(), [3, 4])
        found = manager.restore({"w": self.piece, "step": 0}).state
        self.assertEqual(found["step"], 4)
        self.assertTrue((self.piece.array == 40 + self.rank).all())

  def test_stop_signal(self):
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    with self.open(stop_signals=[signal.SIGUSR1],
                   save_interval_steps=100) as manager:
      saved = []
      for step in range(20):
        if step == 5 and self.rank == self.size - 1:
          os.kill(os.getpid(), signal.SIGUSR1)
        if manager.should_save(step):
          saved.append(manager.save(step, self.state(step)).result.step)
        if manager.should_stop():
          break
      self.assertIn(f"rank {self.size - 1}", manager.should_stop())
      self.assertLess(step, 10)
      self.assertEqual(saved, [0, step])
    self.assertIn(f"SIGUSR1 on rank {self.size - 1}", manager.should_stop())
    self.assertEqual(belay.STOPPED_EXIT_CODE, 85)
    signal.signal(signal.SIGUSR1, before)

  def test_should_stop_of_a_closed_manager(self):
    with self.open() as manager:
      pass
    self.assertIsNone(manager.should_stop())
    manager.close()
    self.assertIsNone(manager.should_stop())

  def test_names_of_signals(self):
    with self.open(stop_signals=["SIGUSR2", signal.SIGUSR1, 15]):
      pass
    for bad in (["SIGNONE"], [True], [1.5], "SIGUSR1", [2**40]):
      self.assert_fails("INVALID_ARGUMENT", "option stop_signals: unusable "
                        "value (need a list of signals, such as ", self.open,
                        stop_signals=bad)
    self.assert_fails("INVALID_ARGUMENT", "SIGKILL cannot be caught", self.open,
                      stop_signals=["SIGKILL"])

  def test_errors(self):
    with self.open() as manager:
      self.assert_fails("FAILED_PRECONDITION", "", self.open)  # one writes
      self.open(read_only=True).close()
      last = self.rank == self.size - 1
      self.assert_fails("INVALID_ARGUMENT", "of type object", manager.save, 0,
                        {"a": object() if last else 1})
      self.assert_fails("INVALID_ARGUMENT",
                        "step: need an int from 0 to 2**63 - 1 (found 'x')",
                        manager.save, "x" if last else 0, {"a": 1})
      self.assert_fails("INVALID_ARGUMENT", "unknown option", manager.save, 0,
                        {"a": 1}, loud=True)
      self.assertEqual(manager.save(0, {"a": 1}).outcome, "saved")
      self.assert_fails("NOT_FOUND", "", manager.restore, {"b": 1})
    self.assert_fails("FAILED_PRECONDITION", "closed", manager.save, 1, {})
    self.assert_fails("INVALID_ARGUMENT", "max_to_keep", self.open,
                      max_to_keep="3")
    manager.close()

  def test_an_exception_closes_without_the_others(self):
    if self.rank == 0:
      manager = None
    with self.assertRaises(ZeroDivisionError):
      with self.open() as manager:
        manager.save(0, self.state(0))
        raise ZeroDivisionError()
    COMM.Barrier()
    with self.open() as manager:
      self.assertEqual(manager.steps(), [0])


if __name__ == "__main__":
  main()
