"""Containers and keys of every kind come back as what they were."""

import collections
import copy
import enum
import importlib
import os
import sys
import types

import numpy
from mpi_case import COMM, MpiCase, main

import belay

Counter = collections.Counter
OrderedDict = collections.OrderedDict
Point = collections.namedtuple("Point", "x y")

# As torch.optim.Adam and MultiStepLR return them.
ADAM = {
    "state": {0: {"step": 3.0, "exp_avg": numpy.arange(3.0)},
              1: {"step": 3.0, "exp_avg": numpy.ones((2, 2))},
              10: {"step": 1.0, "exp_avg": numpy.zeros(1)},
              2: {"step": 2.0, "exp_avg": numpy.zeros(2)}},
    "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "amsgrad": False,
                      "maximize": None, "params": [0, 1, 10, 2]},
                     {"lr": 0.01, "betas": (0.9, 0.99), "params": []}]}
SCHEDULER = {"milestones": Counter({10: 1, 20: 2}), "gamma": 0.1,
             "base_lrs": [0.1, 0.01], "last_epoch": 7, "_last_lr": [0.1, 0.01],
             "verbose": False}

VALUES = {
    "int keys": {10: 0.5, -2: 0.25, 0: "x"},
    "adam": ADAM,
    "scheduler": SCHEDULER,
    "float keys": {0.5: 1, 1e300: 2, float("inf"): 3},
    "bool and None": {True: 1, None: 2},
    "tuple keys": {(0, 1): 2.0, ("a/b", None): 3, (): 4},
    "bytes keys": {b"\x00/\xff": 1},
    "mixed": {1: "a", "x": "b", 2.5: "c", "7": "d"},
    "like ints": {"1": 0, "02": 1},
    "slashes": {"a/b": 1, "a/c/d": [], "a": {"e": 2}},
    "counter": Counter(a=3, b=1),
    "ordered": OrderedDict([("b", 1), ("a", OrderedDict(d=1, c=2))]),
    "defaults": collections.defaultdict(list, {"x": [1], 3: []}),
    "no defaults": collections.defaultdict(None, {"x": 1}),
    "deque": collections.deque([1, "x"], 5),
    "open deque": collections.deque([1.5]),
    "tuple": (1, (2.0, "x"), ()),
    "pairs": [(1, 2.0), (3, 4.0)],
    "point": Point(1, {"z": (2,)}),
    "set": {3, "x", None, (1, 2.0), b"y"},
    "frozen": frozenset([2.5, True]),
    "no set": set(),
    "bytes": b"\x00\xff",
    "no bytes": b"",
    "bytearray": bytearray(b"abc"),
    "complex": 1 - 2j,
    "none": None,
    "nones": [None, 1, None, None],
    "lists": [[], [1], None, {}, (), [[]]],
    "long list": list(range(12)),
    "bools": [True, False], "ints": [1, 2], "floats": [1.0, 2.0],
    "numbers": [1, 2.0, True, 3 + 0j, 2**70],
    "numpy": numpy.float32(1.5),
    "point array": numpy.array(3, "u2"),
    "nothing": {}, "empty": [], "unit": (),
    "empty inside": {"a": {"b": {"c": []}}},
}


def same(one, other):
  """Returns whether they have the same types, values and keys."""
  if type(one) is not type(other):
    if not hasattr(one, "_fields") or one._fields != other._fields:
      return False
  if isinstance(one, numpy.ndarray):
    return one.dtype == other.dtype and numpy.array_equal(one, other)
  if isinstance(one, dict):
    if isinstance(one, OrderedDict) and list(one) != list(other):
      return False
    kinds = lambda keys: sorted((type(key).__name__, repr(key)) for key in keys)
    return kinds(one) == kinds(other) and all(
        same(one[key], other[key]) for key in one)
  if isinstance(one, (list, tuple, collections.deque)):
    return len(one) == len(other) and all(map(same, one, other))
  return one == other


class KindsTest(MpiCase):

  def has_arrays(self):
    """Whether step 0 has any; None needs one, or a None, to take."""
    step = os.path.join(self.run_dir, "step_00000000")
    return len(belay.open(step)) > 0

  def check(self, found, value):
    self.assertTrue(same(found, value), f"need {value!r}, found {found!r}")

  def test_without_a_template(self):
    belay.save(COMM, self.run_dir, 0, VALUES)
    found = belay.restore(COMM, self.run_dir).state
    for key, value in VALUES.items():
      with self.subTest(key):
        self.check(found[key], value)
    self.check(found, VALUES)
    self.check(belay.open(self.run_dir).read_all(), VALUES)

  def test_templates_of_any_kind(self):
    for key, value in VALUES.items():
      with self.subTest(key):
        belay.save(COMM, self.run_dir, 0, {"s": value}, overwrite=True)
        into_full = belay.restore(COMM, self.run_dir,
                                  {"s": copy.deepcopy(value)}, step=0)
        self.check(into_full.state["s"], value)
        if isinstance(value, (dict, list)):
          empty = [] if isinstance(value, list) else {}
          found = belay.restore(COMM, self.run_dir, {"s": empty}, step=0)
          self.check(found.state["s"], value)
        if value is None or self.has_arrays():
          found = belay.restore(COMM, self.run_dir, {"s": None}, step=0)
          self.check(found.state["s"], value)
        # What was restored can be saved again, with the same plan.
        belay.save(COMM, self.run_dir, 1, into_full.state, overwrite=True)
        again = belay.restore(COMM, self.run_dir, step=1)
        self.check(again.state["s"], value)

  def test_the_class_of_a_template_stays(self):
    belay.save(COMM, self.run_dir, 0, {
        "d": {"b": 1, "a": 2}, "c": {5: 2}, "l": [1, "x"], "s": [3, 4],
        "o": {"x": 1}})
    found = belay.restore(COMM, self.run_dir, {
        "d": OrderedDict(b=0, a=0), "c": Counter(),
        "l": collections.deque([0, ""], 7), "s": collections.deque(),
        "o": collections.defaultdict(int, x=0)}).state
    self.check(found["d"], OrderedDict(b=1, a=2))
    self.check(found["c"], Counter({5: 2}))
    self.check(found["l"], collections.deque([1, "x"], 7))
    self.assertEqual(found["l"].maxlen, 7)
    self.check(found["s"], collections.deque([3, 4]))
    self.assertEqual(found["o"]["other"], 0)

  def test_states_that_are_no_dict(self):
    for state in ([1, (2, {3: 4})], (1.5, b"x"), OrderedDict(b=1, a=2),
                  {1: {2: 3}}):
      belay.save(COMM, self.run_dir, 0, state, overwrite=True)
      self.check(belay.restore(COMM, self.run_dir).state, state)
      self.check(belay.restore(COMM, self.run_dir, state).state, state)

  def test_growing_through_a_manager(self):
    with belay.CheckpointManager(COMM, self.run_dir) as manager:
      manager.save(1, {"adam": ADAM, "s": SCHEDULER})
    with belay.CheckpointManager(COMM, self.run_dir,
                                 restore_match="consumed") as manager:
      found = manager.restore({"adam": {"state": {}, "param_groups": []},
                               "s": {}}).state
      self.check(found, {"adam": ADAM, "s": SCHEDULER})

  def test_tensors(self):
    """With a module that stands for PyTorch."""

    class Tensor:

      def __init__(self, array):
        self.array = array

      def detach(self):
        return self

      def numpy(self):
        return self.array

    state = {"w": Tensor(numpy.arange(3.0)), "step": Tensor(numpy.array(2.0)),
             "a": numpy.ones(2), "n": 3, "l": [Tensor(numpy.ones(1))]}
    belay.save(COMM, self.run_dir, 0, {"model": state})
    torch = types.SimpleNamespace(as_tensor=Tensor)
    before = sys.modules.get("torch")
    sys.modules["torch"] = torch
    try:
      found = belay.restore(COMM, self.run_dir, {"model": {}}).state["model"]
    finally:
      del sys.modules["torch"]
      if before is not None:
        sys.modules["torch"] = before
    for name in ("w", "step"):
      self.assertIsInstance(found[name], Tensor)
      self.assert_equal_arrays(found[name].array, state[name].array)
    self.assertIsInstance(found["l"][0], Tensor)
    self.assert_equal_arrays(found["a"], state["a"])
    self.assertEqual(found["n"], 3)
    if before is None:
      found = belay.restore(COMM, self.run_dir, {"model": {}}).state["model"]
      self.assert_equal_arrays(found["w"], numpy.arange(3.0))

  def test_what_only_some_ranks_have(self):
    mine = {self.rank: numpy.full(2, self.rank), "w": numpy.zeros(1)}
    if self.rank == 0:
      mine[(0, 1)] = [1]
    belay.save(COMM, self.run_dir, 0, {"layers": mine})
    found = belay.restore(COMM, self.run_dir).state["layers"]
    expected = {rank: numpy.full(2, rank) for rank in range(self.size)}
    self.check(found, {**expected, "w": numpy.zeros(1), (0, 1): [1]})

  def test_the_same_arrays_for_other_readers(self):
    state = {"adam": {0: numpy.ones(2), (1, 2): 3}, "l": [(1, 2.0)]}
    belay.save(COMM, self.run_dir, 0, state)
    self.assertEqual(sorted(belay.open(self.run_dir)),
                     ["adam/(1, 2)", "adam/0", "l/0/0", "l/0/1"])
    found = belay.restore(COMM, self.run_dir, {"l": [(0, 0.0)]},
                          unexpected="collect")
    self.assertEqual(found.unexpected, ["adam/(1, 2)", "adam/0"])
    belay.restore(COMM, self.run_dir, state, unexpected="error")

  def test_copies(self):
    state = {"adam": ADAM, "c": Counter({3: 1}), "e": [], "b": b"x"}
    belay.save(COMM, self.run_dir, 0, state)
    to = self.run_dir + "_copy"
    belay.copy_checkpoint(COMM, self.run_dir, to)
    self.check(belay.restore(COMM, to).state, state)
    belay.copy_checkpoint(COMM, self.run_dir, to, to_step=1,
                          leave_out=["adam/.*"])
    self.check(belay.restore(COMM, to, step=1).state,
               {"c": state["c"], "e": [], "b": b"x"})
    belay.copy_checkpoint(COMM, self.run_dir, to, to_step=2,
                          keys=["adam/param_groups/.*"])
    self.check(belay.restore(COMM, to, step=2).state,
               {"adam": {"param_groups": ADAM["param_groups"]}})

  def test_what_is_refused(self):

    class Color(str, enum.Enum):
      RED = "red"

    refused = [
        ({"s": {1: 2, "1": 3}}, 'save "s": two keys of a dict are stored as "1"'),
        ({"s": {1: {"a": 1}, "1": {"b": 1}}}, "rename one of them"),
        ({"s": {True: 2, "True": 3}}, "rename one of them"),
        ({"s": {object: 1}}, "belay cannot store a key of type type"),
        ({"s": {(1, object()): 1}}, "key of type tuple"),
        ({"s": {Color.RED: 1}}, "key of type Color"),
        ({"s": {numpy.float32(1): 1}}, "key of type float32"),
        ({"s": {object()}}, "with an element of type object"),
        ({".python": {"kind": 1}}, "for belay's own use"),
        ({"s": {"a": object()}}, 'save "s/a": belay cannot store a value of'),
    ]
    for state, text in refused:
      self.assert_fails("INVALID_ARGUMENT", text, belay.save, COMM,
                        self.run_dir, 0, state)
    self.assert_fails("INVALID_ARGUMENT", "rename one of them", belay.restore,
                      COMM, self.run_dir, {"s": {1: 2, "1": 3}})

  def test_a_class_of_the_program(self):

    class Config(dict):
      pass

    state = {"c": Config(x=1)}
    with self.assertLogs("belay", "WARNING") if self.rank == 0 else (
        self.subTest()) as log:
      belay.save(COMM, self.run_dir, 0, state)
    if self.rank == 0:
      self.assertIn('save "c": belay does not store the class Config',
                    log.output[0])
    self.check(belay.restore(COMM, self.run_dir).state["c"], {"x": 1})
    found = belay.restore(COMM, self.run_dir, {"c": Config(x=0)}).state["c"]
    self.assertIs(type(found), Config)
    self.assertEqual(found, {"x": 1})

  def test_forms_that_nobody_has_stored_are_refused(self):
    made = importlib.import_module("belay._kinds").made
    for kind, values in [('{"bytearray": 1}', 1 << 40), ("bytes", 1 << 40),
                         ('{"set": 1}', [1]), ('{"namedtuple": 1}', [1]),
                         ('{"deque": "x"}', [1]), ("{", [1])]:
      with self.assertRaises((TypeError, ValueError)):
        made(kind, values)


if __name__ == "__main__":
  main()
