"""A run in one object."""

import numpy
from mpi_case import COMM, MpiCase, main

import belay


class RunTest(MpiCase):

  def open(self, state, **options):
    return belay.Run(COMM, self.run_dir, state, **options)

  def state(self):
    return {"w": belay.Piece(numpy.zeros(2), (2 * self.size,),
                             (2 * self.rank,)),
            "step": 0, "losses": [0.0], "inner": {"name": "first"}}

  def test_a_dict(self):
    state = self.state()
    with self.open(state, save_interval_steps=3, max_to_keep=2) as run:
      self.assertIsNone(run.restore())
      done = []
      while state["step"] < 7:
        state["step"] += 1
        state["w"].array[...] = 10 * state["step"] + self.rank
        state["losses"].append(0.5)
        saved = run.step(state["step"])
        if saved is not None:
          self.assertEqual(saved.outcome, "saved")
          done.append(state["step"])
      self.assertEqual(done, [1, 3, 6])
      self.assertEqual(run.manager.steps(), [3, 6])
      self.assertEqual(run.step(7, force=True).outcome, "saved")
      self.assertIsNone(run.should_stop())
    fresh = self.state()
    fresh["inner"]["name"] = "other"
    with self.open(fresh) as run:
      self.assertEqual(run.restore(), 7)
    self.assertEqual(fresh["step"], 7)
    self.assertEqual(fresh["losses"], state["losses"])
    self.assertEqual(fresh["inner"], {"name": "first"})
    self.assertTrue((fresh["w"].array == 70 + self.rank).all())

  def test_a_function_is_called_only_if_a_save_is_due(self):
    calls, loaded = [], []

    def state():
      calls.append(None)
      return {"n": len(calls)}

    with self.open(state, save_interval_steps=5, load=loaded.append) as run:
      self.assertIsNone(run.restore())
      for step in range(1, 11):
        run.step(step)
      self.assertEqual(len(calls), 4)  # the restore, and steps 1, 5 and 10
      self.assertEqual(loaded, [])
      self.assertEqual(run.restore(), 10)
      self.assertEqual(loaded, [{"n": 4}])

  def test_functions_that_raise_on_one_rank(self):
    fails = [False]

    def state():
      if fails[0] and self.rank == self.size - 1:
        raise ValueError("no state")
      return {"n": numpy.arange(3)}

    def load(restored):
      if fails[0] and self.rank == self.size - 1:
        raise ValueError("no load")

    with self.open(state, load=load) as run:
      run.step(1)
      fails[0] = True
      self.assert_fails("INVALID_ARGUMENT", "no state", run.step, 2)
      fails[0] = False
      self.assertEqual(run.step(3).outcome, "saved")
      fails[0] = True
      self.assert_fails("INVALID_ARGUMENT", "no state", run.restore)
      fails[0] = False
      self.assertEqual(run.restore(), 3)
    with self.open({"n": numpy.zeros(3, int)}, load=load) as run:
      fails[0] = True
      self.assert_fails("INVALID_ARGUMENT", "no load", run.restore)

  def test_errors(self):
    with self.assertRaisesRegex(TypeError, "needs `load`"):
      self.open(lambda: {})
    self.assert_fails("INVALID_ARGUMENT", "max_to_keep", self.open, {},
                      max_to_keep=-1)
    self.assert_fails("INVALID_ARGUMENT", 'close to it: "max_to_keep"',
                      self.open, {}, max_to_kep=1)
    run = self.open(self.state())
    run.close()
    run.close()
    with self.assertRaisesRegex(belay.Error, "is closed"):
      run.step(1)


if __name__ == "__main__":
  main()
