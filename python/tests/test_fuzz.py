"""Random states, saved on some ranks and restored on others, against NumPy."""

import os

import numpy
import random_state
from mpi_case import COMM, MpiCase, main

import belay

# `BELAY_TEST_CASES=2000 mpirun -n 6` is what a release has to pass.
CASES = int(os.environ.get("BELAY_TEST_CASES", "120"))


class FuzzTest(MpiCase):

  def setUp(self):
    super().setUp()
    self.parts = [COMM.Split(int(self.rank >= ranks), self.rank)
                  for ranks in range(1, self.size + 1)]

  def tearDown(self):
    for comm in self.parts:
      comm.Free()
    super().tearDown()

  def options(self, random, tree):
    """Returns random options of a save."""
    kinds = []
    random_state.map_tree(tree, lambda value: kinds.append(value.kind))
    options = {
        "file_layout": ["shared", "shared", "per_task", "per_node"],
        "array_layout": ["auto", "canonical"],
        "transfer": ["auto", "auto", "independent", "two_phase", "collective",
                     "hdf5"],
        "durable": [False], "checksums": [True, True, False],
        "max_shard_size": [None, None, 100],
        "args": [None, None, {".*": {"deflate": 1}}],
    }
    chosen = {name: values[random.integers(len(values))]
              for name, values in options.items()}
    if not {"replicated", "piece"} & set(kinds):
      chosen["args"] = None  # which must match a key
    if chosen["args"]:  # which asks for chunks
      chosen["array_layout"] = "auto"
    return chosen

  def check_value(self, value, found, given, comm, saved_ranks):
    """Asserts that a restored value is what was saved."""
    same = comm.size == saved_ranks
    if value.kind == "replicated":
      self.assertIs(found, given)
      self.check_bits(found, value.stored)
    elif value.kind == "piece":
      self.assertIs(found, given)
      box = (given.offset, given.array.shape)
      self.check_bits(given.array, random_state.in_box(value.stored, box))
    elif value.kind == "laid_out":
      self.assertIs(found, given)
      box = given.layout.local_box(value.stored.shape, comm.rank)
      self.check_bits(given.array, random_state.in_box(value.stored, box))
    elif value.kind == "flat":
      self.assertIs(found, given)
      end = given.begin + len(given.array)
      self.assert_equal_arrays(given.array, value.flat[given.begin:end])
    elif value.kind == "variable":
      self.assertIs(found, given)
      self.assert_equal_arrays(given.read(), value.stored)
    elif value.kind == "by_id":
      self.assert_equal_arrays(found.array, value.stored[given.ids])
    else:
      self.check_own_value(value, found, comm, same)

  def check_own_value(self, value, found, comm, same):
    """Asserts what is new after a restore."""
    if value.kind == "rows":
      whole = numpy.concatenate(value.stored)
      if same:
        self.assert_equal_arrays(found.array, value.stored[comm.rank])
      begin, end = (len(whole) * (comm.rank + one) // comm.size
                    for one in (0, 1))
      self.assertTrue(same or abs(len(found.array) - (end - begin)) <= 1)
      together = comm.allgather(found.array)
      self.assert_equal_arrays(numpy.concatenate(together), whole)
    elif value.kind == "per_rank":
      expected = value.stored[comm.rank if same else 0]
      self.check_scalar(found.value, expected)
    else:
      self.check_scalar(found, value.stored)

  def check_bits(self, found, expected):
    """Asserts that all bytes are equal, in whichever order they lie."""
    self.assert_equal_arrays(found.astype(expected.dtype), expected)

  def check_scalar(self, found, expected):
    self.assertIs(type(found), type(expected))
    if isinstance(expected, (numpy.ndarray, numpy.generic)):
      self.assert_equal_arrays(found, expected)
    else:
      self.assertEqual(found, expected)

  def check_reader(self, random, tree):
    """Asserts that any part can be read without MPI."""
    reader = belay.open(self.run_dir)

    def check(key, value):
      if isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in items:
          check(f"{key}/{name}" if key else str(name), item)
      elif value.kind == "flat":
        for name, array in value.stored.items():
          self.assert_equal_arrays(reader[f"{key}/{name}"], array)
      elif value.kind in ("replicated", "piece", "laid_out", "variable",
                          "by_id"):
        box = random_state.random_box(random, value.stored.shape)
        index = tuple(slice(begin, begin + length)
                      for begin, length in zip(*box))
        self.assert_equal_arrays(reader[key][index], value.stored[index])
      elif value.kind == "rows":
        self.assert_equal_arrays(reader[key], numpy.concatenate(value.stored))

    check("", tree)

  def run_case(self, seed):
    random = numpy.random.default_rng(seed)
    own = numpy.random.default_rng((seed, self.rank))
    saving, restoring = random.integers(1, self.size + 1, 2)
    tree = random_state.random_tree(random, saving)
    options = self.options(random, tree)
    comm = self.parts[saving - 1]
    if self.rank < saving:
      state = random_state.map_tree(
          tree, lambda value: random_state.to_save(own, value, comm))
      belay.save(comm, self.run_dir, 0, state, overwrite=True, **options)
    COMM.Barrier()
    comm = self.parts[restoring - 1]
    if self.rank < restoring:
      given = random_state.map_tree(
          tree, lambda value: random_state.to_restore(own, value, comm))
      found = belay.restore(comm, self.run_dir, given).state
      self.check_tree(tree, found, given, comm, saving)
    self.check_reader(own, tree)
    COMM.Barrier()

  def check_tree(self, tree, found, given, comm, saved_ranks):
    if not isinstance(tree, (dict, list, tuple)):
      self.check_value(tree, found, given, comm, saved_ranks)
      return
    self.assertIs(type(found), type(tree))
    self.assertEqual(len(found), len(tree))
    for key in tree if isinstance(tree, dict) else range(len(tree)):
      self.check_tree(tree[key], found[key], given[key], comm, saved_ranks)

  def test_random_states(self):
    first = int(os.environ.get("BELAY_TEST_FIRST", "0"))
    for seed in range(first, first + CASES):
      with self.subTest(seed=seed):
        self.run_case(seed)


if __name__ == "__main__":
  main()
