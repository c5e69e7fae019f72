"""Lists and empty dicts, whose length comes from what is stored."""

import copy
import os
import time
from collections import Counter, deque

import numpy
from mpi_case import COMM, MpiCase, main

import belay


class ListsTest(MpiCase):

  def stored(self, value, into):
    belay.save(COMM, self.run_dir, 0, {"v": value}, overwrite=True)
    return belay.restore(COMM, self.run_dir, {"v": into}).state["v"]

  def test_a_history_grows(self):
    history = [0.5, 0.25, 0.125]
    for given in ([], [0.0], [0.0] * 3):
      self.assertEqual(self.stored(history, given), history)
    self.assertEqual(self.stored(["a", "b", None, 3, True], ["", ""]),
                     ["a", "b", None, 3, True])
    self.assertEqual(self.stored(list(range(11)), []), list(range(11)))

  def test_records_grow(self):
    records = [{"loss": 0.5, "step": 1}, {"loss": 0.25, "step": 2}]
    self.assertEqual(self.stored(records, []), records)
    self.assertEqual(self.stored(records, [{"loss": 0.0, "step": 0}]), records)
    self.assertEqual(self.stored([[1, 2], [3, 4]], [[], []]), [[1, 2], [3, 4]])
    self.assertEqual(self.stored([[], [1], None], []), [[], [1], None])

  def test_a_list_of_numbers_is_one_array(self):
    many = 100_000
    lists = {"i": list(range(many)), "f": [0.5 * i for i in range(many)],
             "b": [i % 3 == 0 for i in range(many)], "t": (1, 2, 3),
             "big": [2**63 - 1, -2**63], "one": [7], "q": deque([1.5, 2.5])}
    mixed = {"m": [1, 2.0], "x": [True, 1], "n": [1, None], "h": [2**63, 1],
             "np": [numpy.float32(1), numpy.float32(2)]}
    state = {**lists, **mixed}
    belay.save(COMM, self.run_dir, 0, state)
    reader = belay.open(self.run_dir)
    for key, value in lists.items():
      self.assert_equal_arrays(reader[key], numpy.array(value))
    self.assertEqual(len(list(reader)), len(lists) + 2 * len(mixed) - 1)
    exact = lambda values: [(type(one), one) for one in values]
    blank = {key: type(value)() for key, value in state.items()
             if not isinstance(value, tuple)}
    longer = {key: type(value)([0] * (len(value) + 2))
              for key, value in state.items() if not isinstance(value, tuple)}
    for into in (None, blank, longer, state):
      found = belay.restore(COMM, self.run_dir, into).state
      for key in into or state:
        self.assertIs(type(found[key]), type(state[key]), key)
        self.assertEqual(exact(found[key]), exact(state[key]), key)
    self.assert_fails("INVALID_ARGUMENT", "3 elements are stored; pass as many",
                      belay.restore, COMM, self.run_dir, {"t": (0, 0)})
    array = numpy.zeros(many)
    belay.restore(COMM, self.run_dir, {"f": array})
    self.assert_equal_arrays(array, numpy.array(lists["f"]))

  def test_a_template_costs_what_an_empty_list_costs(self):
    if self.size > 1:
      self.skipTest("ranks that wait take time of their own")
    many = 200_000
    belay.save(COMM, self.run_dir, 0, {"v": [0.5] * many})
    seconds = {}
    for name, into in (("empty", []), ("full", [0.0] * many)) * 2:
      begin = time.process_time()
      found = belay.restore(COMM, self.run_dir, {"v": list(into)}).state["v"]
      seconds[name] = time.process_time() - begin
      self.assertEqual(found, [0.5] * many)
    self.assertLess(seconds["full"], 4 * seconds["empty"] + 0.1, seconds)

  def test_lists_inside_others_are_bound_when_the_step_is_known(self):
    value = {"a": [[1, 2], [3.0, 4.0]], "t": (1, 2), "m": [1, [2, 3]]}
    belay.save(COMM, self.run_dir, 0, value)
    for into in ({"a": [[0, 0], [0.0, 0.0]], "t": (0, 0), "m": [0, [0, 0]]},
                 {"a": [[0], [0.0]], "t": (0, 0), "m": [0, [0]]}):
      given = copy.deepcopy(into)
      found = belay.restore(COMM, self.run_dir, given).state
      self.assertEqual(found, value)
      self.assertEqual(given["a"], value["a"])

  def test_numbers_that_change_from_save_to_save(self):
    state = {"l": [1, 2], "n": 0}
    for step, numbers in enumerate(([1, 2], [3, 4], [3.0, 4.0], [5.0, True],
                                    [5.0, 6.0], [5.0], [], [1, 2**63], [1, 2])):
      state["l"][:] = numbers
      saved = belay.save(COMM, self.run_dir, step, state)
      self.assertEqual(saved.plan_reused, step == 1)
      found = belay.restore(COMM, self.run_dir, {"l": [], "n": 0}).state["l"]
      self.assertEqual(list(map(repr, found)), list(map(repr, numbers)))

  def test_lists_of_numbers_of_other_steps(self):
    """An array of NumPy or of C++, and elements that were stored one by one."""
    belay.save(COMM, self.run_dir, 0, {"a": numpy.arange(3), "l": {"0": 1.5,
                                                                   "1": 2.5}})
    for into in ([], [0], [0] * 5):
      found = belay.restore(COMM, self.run_dir,
                            {"a": into, "l": list(into)}).state
      self.assertEqual(found, {"a": [0, 1, 2], "l": [1.5, 2.5]})
    found = belay.restore(COMM, self.run_dir, {"l": (0.0, 0.0)}).state
    self.assertEqual(found, {"l": (1.5, 2.5)})

  def test_new_arrays_of_an_empty_list(self):
    found = self.stored([numpy.arange(3.0), numpy.arange(2)], [])
    self.assert_equal_arrays(found[0], numpy.arange(3.0))
    self.assert_equal_arrays(found[1], numpy.arange(2))

  def test_an_empty_dict_takes_all(self):
    self.assertEqual(self.stored({"a": 1, "b": {"c": "x"}}, {}),
                     {"a": 1, "b": {"c": "x"}})
    self.assertEqual(self.stored({"a": 1, "b": 2}, {"a": 0}), {"a": 1})
    self.assertEqual(self.stored({"a": 1, "b": {}}, {"a": 0, "b": {}}),
                     {"a": 1, "b": {}})

  def test_other_sequences_have_the_stored_length(self):
    arrays = [numpy.ones(2), numpy.ones(2)]
    zeros = numpy.zeros(2)
    for value, into in (((1, 2, 3), (0, 0)), (arrays, [zeros])):
      belay.save(COMM, self.run_dir, 0, {"v": value}, overwrite=True)
      self.assert_fails("INVALID_ARGUMENT", "elements are stored; pass as many",
                        belay.restore, COMM, self.run_dir, {"v": into})
    self.assert_equal_arrays(zeros, numpy.zeros(2))

  def test_sequences_that_differ_between_ranks(self):
    state = {"own": belay.PerRank([7] * (self.rank + 1)),
             "rows": [numpy.ones(1)] * (1 if self.rank == 0 else 0),
             "owned": {"x": numpy.ones(3)} if self.rank == 0 else {}}
    belay.save(COMM, self.run_dir, 0, state)
    found = belay.restore(COMM, self.run_dir, state).state
    self.assertEqual(found["own"].value, [7] * (self.rank + 1))
    self.assertEqual(len(found["rows"]), 1 if self.rank == 0 else 0)
    self.assertEqual(list(found["owned"]), ["x"] if self.rank == 0 else [])

  def test_what_is_skipped_stays(self):
    belay.save(COMM, self.run_dir, 0, {"l": [0.5, 0.25], "t": (1.0, 2.0), "n": 3,
                                       "s": {1, 2}})
    into = {"l": [9.0, 9.0], "t": (3.0, 4.0), "n": 0, "s": {7}}
    skip = {name: {"skip": True} for name in ("l", "t", "s")}
    found = belay.restore(COMM, self.run_dir, into, args=skip).state
    for state in found, into:
      self.assertEqual(state, {"l": [9.0, 9.0], "t": (3.0, 4.0), "n": 3,
                               "s": {7}})

  def test_numbers_that_are_no_list(self):
    belay.save(COMM, self.run_dir, 0, {"v": {9000000000000000000: 1}})
    self.assert_fails("INVALID_ARGUMENT", "is not a list", belay.restore, COMM,
                      self.run_dir, {"v": []})

  def test_a_number_in_a_name_is_no_length(self):
    self.assertEqual(self.stored({1: 1.5, 3: 2.5}, set()), {None, 1.5, 2.5})
    for number in (100_000, 10**12, 10**25):
      values = {0: 1.5, number: 2.5}
      for given in (set(), frozenset()):
        self.assertEqual(self.stored(values, given), values)

  def test_what_was_passed_has_all_that_was_restored(self):
    """Even if nobody looks at the result."""
    state = {"step": 7, "s": "x", "b": b"y", "t": (1, [2.0]), "none": None,
             "w": numpy.arange(3.0), "d": {"n": 2.5, "l": [1, "a"]},
             "open": {"a": {3: 4}}, "h": [0.5, 0.25], "c": Counter({5: 2}),
             "q": deque([1, 2], 3), "r": [{"k": 1}, {"k": 2}],
             "own": belay.PerRank({"seed": self.rank}),
             "one": belay.PerRank(self.rank),
             "rows": belay.Rows(numpy.arange(self.rank + 1.0))}
    belay.save(COMM, self.run_dir, 0, state)

    def blank():
      return {"step": 0, "s": "", "b": b"", "t": (0, [0.0]), "none": 5,
              "w": numpy.zeros(3), "d": {"n": 0.0, "l": [0, ""]}, "open": {},
              "h": [], "c": Counter(), "q": deque(maxlen=3), "r": [{"k": 0}],
              "own": belay.PerRank({"seed": -1}), "one": belay.PerRank(-1),
              "rows": belay.Rows(numpy.zeros(0))}

    def check(found):
      for key in ("step", "s", "b", "t", "d", "open", "h", "c", "q", "r"):
        self.assertEqual(found[key], state[key], key)
        self.assertIs(type(found[key]), type(state[key]), key)
      self.assert_equal_arrays(found["w"], state["w"])
      self.assertEqual(found["own"].value, {"seed": self.rank})
      self.assertEqual(found["one"].value, self.rank)
      self.assert_equal_arrays(found["rows"].array, state["rows"].array)

    given = blank()
    del given["none"]
    held = {key: given[key] for key in ("d", "h", "c", "q", "r", "open", "own",
                                        "rows")}
    restored = belay.restore(COMM, self.run_dir, given)
    check(given)
    check(restored.state)
    for key, value in held.items():  # the very containers
      self.assertIs(given[key], value)
    self.assertIsNot(restored.state, given)
    # It takes a step with shorter lists afterwards.
    shorter = {**state, "h": [1.0], "r": [{"k": 3}]}
    belay.save(COMM, self.run_dir, 1, shorter)
    belay.restore(COMM, self.run_dir, given)
    self.assertEqual((given["h"], given["r"]), ([1.0], [{"k": 3}]))
    with belay.CheckpointManager(COMM, self.run_dir) as manager:
      given = blank()
      del given["none"]
      manager.restore(given, step=0)
      check(given)

  def test_a_restore_that_fails_changes_no_number(self):
    belay.save(COMM, self.run_dir, 0, {"step": 7})
    given = {"step": 0, "other": 0}
    self.assert_fails("NOT_FOUND", "other", belay.restore, COMM, self.run_dir,
                      given)
    self.assertEqual(given, {"step": 0, "other": 0})

  def test_names_that_are_not_utf8(self):
    odd = b"\xff\x80".decode(errors="surrogateescape")
    value = {"0": {odd: 1}, "1": 2}
    self.assertEqual(self.stored(value, []), [{odd: 1}, 2])
    found = belay.restore(COMM, self.run_dir, {"v": {"1": 0}},
                          unexpected="warn")
    self.assertEqual(found.unexpected, ["v/0/" + odd])
    self.assertIn("v/0/", "".join(found.warnings))

  def test_ranks_with_lists_of_other_lengths(self):
    belay.save(COMM, self.run_dir, 0, {"v": [1, 2], "w": 3})
    own = min(self.rank, 2) if self.size > 1 else 2
    state = {"v": [0] * own, "w": 0}
    found = belay.restore(COMM, self.run_dir, state).state
    self.assertEqual(found, {"v": [1, 2][:own], "w": 3})

  def test_a_manager_that_tries_two_steps(self):
    with belay.CheckpointManager(COMM, self.run_dir) as manager:
      manager.save(1, {"history": [1.0], "w": numpy.ones(4)})
      manager.save(2, {"history": [1.0, 2.0], "w": numpy.full(4, 2.0)})
    if self.rank == 0:
      folder = os.path.join(self.run_dir, "step_00000002")
      data = next(name for name in os.listdir(folder) if "data" in name)
      with open(os.path.join(folder, data), "r+b") as file:
        size = os.path.getsize(file.name)
        file.write(b"\xff" * size)
    COMM.Barrier()
    with belay.CheckpointManager(COMM, self.run_dir) as manager:
      w = numpy.zeros(4)
      restored = manager.restore({"history": [], "w": w})
      self.assertEqual(restored.step, 1)
      self.assertEqual(restored.state["history"], [1.0])
      self.assert_equal_arrays(w, numpy.ones(4))
      manager.save(3, restored.state)
    found = belay.restore_latest(COMM, self.run_dir, {"history": []})
    self.assertEqual(found.state, {"history": [1.0]})


if __name__ == "__main__":
  main()
