"""Ints of any size, such as those in the state of a random generator."""

import numpy
from mpi4py import MPI
from mpi_case import COMM, MpiCase, main

import belay

NUMBERS = [0, 2**63 - 1, -2**63, 2**63, -2**63 - 1, 2**64, 2**127 + 1, -10**300]


def zeros(state):
  """Returns the same structure with 0 for each int."""
  if isinstance(state, dict):
    return {key: zeros(value) for key, value in state.items()}
  return 0 if isinstance(state, int) else state


class IntsTest(MpiCase):

  def test_round_trips(self):
    state = {f"n{i}": number for i, number in enumerate(NUMBERS)}
    belay.save(COMM, self.run_dir, 0, state)
    for into in (state, zeros(state), {key: 2**99 for key in state},
                 {key: None for key in state}, None):
      found = belay.restore(COMM, self.run_dir, into).state
      self.assertEqual(found, state)
      self.assertEqual({type(number) for number in found.values()}, {int})
    reader = belay.open(self.run_dir)
    self.assertEqual(reader.read_all(), state)
    self.assertEqual(reader["n6"], 2**127 + 1)
    self.assertEqual(reader["n1"][()], 2**63 - 1)

  def test_digits_that_are_a_str(self):
    state = {"s": str(2**100), "n": 2**100}
    belay.save(COMM, self.run_dir, 0, state)
    reader = belay.open(self.run_dir)
    self.assertEqual({key: reader[key] for key in reader}, state)
    self.assertEqual(belay.restore(COMM, self.run_dir).state, state)
    self.assert_fails("FAILED_PRECONDITION", '"s"', belay.restore, COMM,
                      self.run_dir, {"s": 0})

  def test_missing_and_casts(self):
    belay.save(COMM, self.run_dir, 0, {"f": 2.0, "n": 3})
    found = belay.restore(COMM, self.run_dir, {"n": 1, "m": 2**80, "k": 5},
                          missing="collect")
    self.assertEqual(found.state, {"n": 3, "m": 2**80, "k": 5})
    self.assertEqual(found.missing, ["k", "m"])
    self.assert_fails("FAILED_PRECONDITION", '"f"', belay.restore, COMM,
                      self.run_dir, {"f": 1})
    found = belay.restore(COMM, self.run_dir, {"f": 1}, allow_dtype_cast=True)
    self.assertEqual(found.state, {"f": 2})

  def test_random_generator(self):
    """Goes on with the same numbers, saved and restored on 1 and all ranks."""
    for save_on, restore_on in ((COMM, COMM), (MPI.COMM_SELF, COMM),
                                (COMM, MPI.COMM_SELF)):
      generator = numpy.random.Generator(numpy.random.PCG64(7))
      generator.random(5)
      generator.integers(9, dtype="u4")  # leaves half a number
      state = {"random": generator.bit_generator.state}
      if save_on is COMM or self.rank == 0:
        belay.save(save_on, self.run_dir, 0, state, overwrite=True)
      COMM.Barrier()
      fresh = numpy.random.Generator(numpy.random.PCG64(8))
      blank = {"random": fresh.bit_generator.state}
      for into in (blank, zeros(blank), None):
        found = belay.restore(restore_on, self.run_dir, into).state
        self.assertEqual(found, state)
        fresh.bit_generator.state = found["random"]
        expected = numpy.random.Generator(numpy.random.PCG64())
        expected.bit_generator.state = state["random"]
        self.assertEqual(fresh.random(9).tolist(),
                         expected.random(9).tolist())
      COMM.Barrier()

  def test_a_generator_for_each_rank(self):
    generator = numpy.random.Generator(numpy.random.PCG64(self.rank))
    generator.random(self.rank)
    state = {"random": belay.PerRank(generator.bit_generator.state)}
    belay.save(COMM, self.run_dir, 0, state)
    into = {"random": belay.PerRank(numpy.random.PCG64().state)}
    found = belay.restore(COMM, self.run_dir, into).state["random"]
    self.assertEqual(found.value, generator.bit_generator.state)


if __name__ == "__main__":
  main()
