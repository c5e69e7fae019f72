"""Saves of the same state again: the second one lists nothing anew.

Whatever changes between two saves must not be taken for what was there.
"""

import collections
import copy
import gc
import logging
import os
import random
import weakref

import numpy
from mpi_case import COMM, MpiCase, main

import belay

ROUNDS = 25


class AgainTest(MpiCase):

  def save(self, state):
    belay.save(COMM, self.run_dir, 0, state, overwrite=True, durable=False)
    return belay.open(self.run_dir)

  def check(self, state):
    """Saves arrays and numbers, and asserts that these are stored."""
    reader = self.save(state)
    self.assertEqual(sorted(reader), sorted(state))
    for key, value in state.items():
      if isinstance(value, (str, type(None))):
        self.assertEqual(reader[key], value)
      else:
        self.assert_equal_arrays(reader[key][()], value)

  def test_values_that_change_in_place(self):
    state = {"a": numpy.zeros(5), "i": 0, "f": 0.5, "s": "", "t": False,
             "c": 1j, "n": numpy.float32(1), "r": numpy.zeros((2, 3)).T}
    for step in range(4):
      state["a"][:] = step
      state["r"][...] = -step
      state.update(i=step, f=step / 3, s="x" * step, t=step == 2, c=step * 1j,
                   n=numpy.float32(step))
      self.check(state)

  def test_array_that_was_resized(self):
    array = numpy.arange(100.0)
    state = {"a": array}
    for length in (100, 3, 3, 2000, 1999, 0, 4):
      array.resize(length, refcheck=False)
      array[:] = length
      self.check(state)

  def test_array_whose_form_changes_in_place(self):
    array = numpy.arange(12, dtype="i8")
    state = {"a": array}
    self.check(state)
    array.shape = (3, 4)
    self.check(state)
    array.dtype = "f8"
    self.check(state)
    array.dtype = "i4"
    self.check(state)
    array.shape = (24,)
    self.check(state)
    state["a"] = array[:12]
    self.check(state)
    state["a"] = array[::2]
    self.check(state)
    state["a"] = array[12:]
    self.check(state)
    state["a"] = array[::-1]
    self.check(state)

  def test_address_that_is_used_again(self):
    """NumPy gives the memory of a freed array to the next one of its size."""
    state, seen = {}, collections.Counter()
    for step in range(40):
      state.pop("a", None)
      dtype = ("f8", "i8", "c8", "u8")[step % 4]
      state["a"] = numpy.full((2, 50) if step % 3 else 100, step, dtype)
      seen[state["a"].ctypes.data] += 1
      self.check(state)
    self.assertGreater(max(seen.values()), 1)

  def test_new_arrays_in_each_step(self):
    state = {"a": numpy.zeros(50), "b": numpy.zeros((2, 3), order="F")}
    piece = belay.Piece(numpy.zeros(2), (2 * self.size,), (2 * self.rank,))
    for step in range(6):
      state = {key: value + step for key, value in state.items()}
      self.check(state)
      piece.array = numpy.full(2, step + self.rank)
      found = self.save({**state, "p": piece})["p"][...]
      self.assertEqual(found.tolist(), numpy.repeat(
          step + numpy.arange(self.size), 2).tolist())

  def test_arrays_are_not_kept(self):
    for wrap in (lambda array: array,
                 lambda array: belay.Piece(array, (10 * self.size,),
                                           (10 * self.rank,))):
      array = numpy.full(10, 1.0)
      memory = weakref.ref(array)
      for _ in range(3):
        self.save({"a": wrap(array), "n": 1})
      del array
      gc.collect()
      self.assertIsNone(memory())

  def test_keys_and_kinds_that_change(self):
    one, two = numpy.zeros(4), numpy.ones(4)
    for state in ({"a": one, "b": two}, {"b": two, "a": one},
                  {"a": two, "b": one}, {"a": one}, {"a": one, "c": two},
                  {"a": one, "c": 2}, {"a": one, "c": 2.0},
                  {"a": one, "c": True}, {"a": one, "c": "2"},
                  {"a": one, "c": numpy.int8(2)},
                  {"a": one, "c": numpy.int16(2)}):
      self.check(state)
      self.check(state)

  def test_nested(self):
    state = {"d": {7: [1, 2], "x": (3, {"y": None})}, "b": b"1"}
    for change in (lambda: None, lambda: state["d"][7].append(5),
                   lambda: state["d"].pop("x"), lambda: state.update(b=b"23"),
                   lambda: state["d"].update({8: 1}),
                   lambda: state["d"].update({8: 2**70}),
                   lambda: state["d"].update({8: -2**70}),
                   lambda: state["d"].update({8: 1}),
                   lambda: state.update(d=collections.OrderedDict(state["d"]))):
      change()
      self.save(state)
      found = belay.restore(COMM, self.run_dir, state).state
      self.assertEqual(found, state)

  def test_pieces(self):
    rows = numpy.zeros((2, 3))
    piece = belay.Piece(rows, (2 * self.size, 3), (2 * self.rank, 0))
    state = {"p": piece, "step": 0}

    def check(expected):
      found = self.save(state)["p"][...]
      self.assertEqual(found.tolist(), [[float(one)] * 3 for one in expected])

    rows[...] = self.rank
    check(numpy.repeat(range(self.size), 2))
    rows[...] = 10 + self.rank
    check(numpy.repeat(range(10, 10 + self.size), 2))
    piece.offset = (2 * (self.size - 1 - self.rank), 0)
    check(numpy.repeat(range(10 + self.size - 1, 9, -1), 2))
    piece.array = rows[:1]
    piece.global_shape, piece.offset = [self.size, 3], [self.rank, 0]
    check(range(10, 10 + self.size))
    del piece.offset  # and last in its dict then
    piece.offset = [self.rank, 0]
    check(range(10, 10 + self.size))
    piece.replica = self.rank
    piece.array = numpy.full((self.size, 3), 5.0)
    piece.offset = [0, 0]
    check([5] * self.size)

  def test_random_changes(self):
    """Each round changes something, and all that is stored is compared."""
    random.seed(5)  # on all ranks alike
    state = {f"k{i}": numpy.arange(i + 1.0) for i in range(6)}

    def array():
      shape = random.choice([(3,), (2, 2), (), (0, 4), (5, 1)])
      dtype = random.choice(["f4", "i8", "u1", "c16"])
      return numpy.full(shape, random.randrange(100), dtype)

    for _ in range(ROUNDS):
      key = random.choice(list(state))
      change = random.randrange(6)
      if change == 0:
        state[key] = array()
      elif change == 1:
        state[key] = random.choice([1, 2.5, "text", None, True])
      elif change == 2:
        state[f"new{random.randrange(50)}"] = array()
      elif change == 3 and len(state) > 2:
        del state[key]
      elif change == 4 and isinstance(state[key], numpy.ndarray):
        state[key][...] = random.randrange(100)
      elif isinstance(state[key], numpy.ndarray) and state[key].ndim == 2:
        state[key] = state[key].T
      values = {key: value for key, value in state.items()
                if value is not None}
      self.check(values)
      self.check({key: copy.deepcopy(value) for key, value in values.items()})


class KeysOfSomeRanksTest(MpiCase):

  def messages(self, *states):
    """Returns what saves log as warnings."""
    lines = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("belay")
    logger.addHandler(handler)
    for step, state in enumerate(states):
      belay.save(self.comm, self.run_dir, step, state, overwrite=True)
    logger.removeHandler(handler)
    return lines

  def setUp(self):
    super().setUp()
    self.comm = COMM.Dup()
    self.addCleanup(self.comm.Free)

  def test_warning(self):
    a = numpy.zeros(2)
    mine = {"a": a, "b": {"c": 1}} if self.rank == 0 else {"a": a}
    other = {"a": a} if self.rank == 0 else {"a": a, "d": 1, "e": 2}
    said = self.messages(mine, mine, other, mine)
    if self.rank > 0 or self.size == 1:
      self.assertEqual(said, [])
      return
    self.assertEqual(len(said), 2, said)
    self.assertIn('rank 1 lacks "b/c", which rank 0 has', said[0])
    self.assertIn('rank 1 has "d", which rank 0 lacks, and so for 1 other',
                  said[1])

  def test_what_is_wrapped_may_differ(self):
    """As the layers of a pipeline do, which each rank has of its own."""
    piece = belay.Piece(numpy.zeros(2), (2,), (0,))
    state = {"a": 1, f"layer{self.rank}": piece}
    self.assertEqual(self.messages(state, state), [])
    self.assertEqual(len(belay.open(os.path.join(
        self.run_dir, "step_00000001"))), 1 + self.size)


if __name__ == "__main__":
  main()
