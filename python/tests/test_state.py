"""Values of a state: saved and restored, or refused with a clear error."""

import array
import collections
import copy

import numpy
from mpi_case import COMM, MpiCase, main

import belay

DTYPES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 "
          "float32 float64 complex64 complex128").split()


def blank(state):
  """Returns the same structure with other values."""
  if isinstance(state, dict):
    return {key: blank(value) for key, value in state.items()}
  if isinstance(state, (list, tuple)):
    return type(state)(blank(value) for value in state)
  if isinstance(state, numpy.ndarray):
    return numpy.zeros_like(state)
  return type(state)()


class StateTest(MpiCase):

  def round_trip(self, state, into=None):
    """Returns what a restore makes of a saved state."""
    belay.save(COMM, self.run_dir, 0, state, overwrite=True)
    into = blank(state) if into is None else into
    return belay.restore(COMM, self.run_dir, into).state

  def test_all_dtypes(self):
    state = {}
    for number, dtype in enumerate(DTYPES):
      values = numpy.arange(12).reshape(3, 4) % (2 if dtype == "bool" else 99)
      state[dtype] = (values + number % 2).astype(dtype)
    found = self.round_trip(state)
    for dtype in DTYPES:
      self.assert_equal_arrays(found[dtype], state[dtype])

  def test_single_values(self):
    state = {"i": -2**63, "f": 0.1, "t": True, "s": "gr\u00fc\u00df\0e",
             "b": b"\0\xff", "c": 1 - 2j, "empty": "", "none": b"",
             "nested": [1, (2.5, ["x", {"y": False, 7: 8}])]}
    found = self.round_trip(state)
    self.assertEqual(found, state)
    for key, value in state.items():
      self.assertIs(type(found[key]), type(value))

  def test_numpy_scalars_keep_their_type(self):
    state = {"a": numpy.float32(1.5), "b": numpy.int16(-7),
             "c": numpy.bool_(True), "d": numpy.array(3, "u8")}
    found = self.round_trip(state, {"a": numpy.float32(0), "b": numpy.int16(0),
                                    "c": numpy.bool_(False),
                                    "d": numpy.zeros((), "u8")})
    for key, value in state.items():
      self.assertIs(type(found[key]), type(value))
      self.assertEqual(found[key], value)

  def test_arrays_are_filled_in_place(self):
    state = {"w": numpy.arange(6.0).reshape(2, 3)}
    belay.save(COMM, self.run_dir, 0, state)
    mine = numpy.zeros((2, 3))
    given = {"w": mine, "n": 0}
    found = belay.restore(COMM, self.run_dir, given, missing="collect")
    self.assertIs(found.state["w"], mine)
    self.assertEqual(found.missing, ["n"])
    self.assertEqual(found.step, 0)
    self.assertIsNot(found.state, given)
    self.assert_equal_arrays(mine, state["w"])

  def test_views_in_any_order(self):
    whole = numpy.arange(240.0).reshape(4, 6, 10)
    views = {"rows": whole[::2], "columns": whole[:, 1:5, 3:], "t": whole.T,
             "fortran": numpy.asfortranarray(whole[1]),
             "steps": whole[1:, ::3, ::2], "moved": whole.transpose(2, 0, 1),
             "backwards": whole[::-1, :, ::-2], "one": whole[:, 2:3, 4:5],
             "nothing": whole[:, 3:3], "point": whole[1, 2, 3:4]}
    belay.save(COMM, self.run_dir, 0, views)
    target = numpy.full_like(whole, -1)
    expected = target.copy()
    for key, view in views.items():
      into = {"fortran": numpy.zeros((6, 10), order="F")}.get(key)
      if into is None:
        start = (view.__array_interface__["data"][0] -
                 whole.__array_interface__["data"][0]) if view.size else 0
        into = numpy.ndarray(view.shape, float, target, start, view.strides)
        numpy.ndarray(view.shape, float, expected, start,
                      view.strides)[...] = view
      found = belay.restore(COMM, self.run_dir, {key: into}).state[key]
      self.assertIs(found, into)
      numpy.testing.assert_array_equal(found, view)
    self.assert_equal_arrays(target, expected)

  def test_other_byte_order_and_unaligned(self):
    packed = numpy.zeros(5, dtype=[("c", "u1"), ("x", "f8")])
    packed["x"] = numpy.arange(5)
    state = {"big": numpy.arange(5, dtype=">i4"), "unaligned": packed["x"]}
    into = {"big": numpy.zeros(5, ">i4"),
            "unaligned": numpy.zeros_like(packed)["x"]}
    found = self.round_trip(state, into)
    self.assertEqual(found["big"].dtype, numpy.dtype(">i4"))
    numpy.testing.assert_array_equal(found["big"], range(5))
    numpy.testing.assert_array_equal(found["unaligned"], range(5))
    self.assertEqual(belay.open(self.run_dir)["big"].dtype, "int32")

  def test_other_containers(self):
    point = collections.namedtuple("point", "x y")
    state = collections.OrderedDict(p=point(1.0, 2), a=array.array("d", [3, 4]),
                                    m=memoryview(bytearray(b"abc")))
    into = collections.OrderedDict(p=point(0.0, 0), a=array.array("d", [0, 0]),
                                   m=memoryview(bytearray(3)))
    found = self.round_trip(state, into)
    self.assertEqual(found["p"], point(1.0, 2))
    self.assertEqual(found["a"], array.array("d", [3, 4]))
    self.assertEqual(bytes(found["m"]), b"abc")

  def test_tensor_that_shares_its_memory(self):
    """As a tensor of PyTorch on the CPU does."""

    class Tensor:

      def __init__(self, array):
        self.array = array

      def detach(self):
        return self

      def numpy(self):
        return self.array

    belay.save(COMM, self.run_dir, 0, {"w": Tensor(numpy.arange(3.0))})
    given = Tensor(numpy.zeros(3))
    found = belay.restore(COMM, self.run_dir, {"w": given}).state
    self.assertIs(found["w"], given)
    numpy.testing.assert_array_equal(given.array, range(3))

  def test_none_takes_any_value(self):
    state = {"a": None, "b": {"c": [1, "x"], "d": numpy.arange(3)}}
    found = self.round_trip(state, {"a": None, "b": None})
    self.assertIsNone(found["a"])
    numpy.testing.assert_array_equal(found["b"]["d"], range(3))
    self.assertEqual(found["b"]["c"], [1, "x"])

  def test_without_a_state(self):
    state = {"m": {"w": numpy.arange(6.0).reshape(2, 3)}, "n": 4, "s": "x"}
    belay.save(COMM, self.run_dir, 3, state, metadata={"commit": "abc"})
    found = belay.restore(COMM, self.run_dir)
    self.assertEqual(found.step, 3)
    self.assertEqual((found.state["n"], found.state["s"]), (4, "x"))
    self.assert_equal_arrays(found.state["m"]["w"], state["m"]["w"])
    self.assertEqual(belay.open(self.run_dir).metadata(), {"commit": "abc"})

  def test_what_is_refused(self):
    shared = numpy.lib.stride_tricks.as_strided(numpy.zeros(3), (3, 3), (8, 0))
    frozen = numpy.zeros(3)
    frozen.flags.writeable = False
    tower = []
    tower.append(tower)
    loop = {}
    loop["loop"] = loop
    refused = [
        ({"a": numpy.array(["x"])}, "no dtype for NumPy's <U1"),
        ({"a": numpy.array([None])}, "no dtype for NumPy's object"),
        ({"a": numpy.zeros(2, "M8[s]")}, "no dtype for NumPy's datetime64"),
        ({"a": numpy.zeros(2, "f8,i4")}, "use belay.Rows"),
        ({"a": numpy.ma.zeros(2)}, "would lose its mask"),
        ({"a": {1, object()}}, "of type object"),
        ({"a": belay.Rows(numpy.zeros((2, 0)))}, "found an array of shape [2, 0]"),
        ({"a": belay.PerRank(numpy.zeros((2, 0)))}, "rows without elements"),
        ({"a": {"b": 1}, "a/b": 2}, "two values have this key"),
        ({"": 1}, "is empty"), ({object: 1}, "a key of type type of a dict"),
        (7, "a dict, a list or a tuple (found int)"),
        (loop, "save \"loop\": the dict contains itself"),
        ({"a": {"b": tower}}, "save \"a/b/0\": the list contains itself"),
        ({"a": {"s": "\ud800"}}, "save \"a/s\": UnicodeEncodeError"),
    ]
    for state, text in refused:
      self.assert_fails("INVALID_ARGUMENT", text, belay.save, COMM,
                        self.run_dir, 0, state)
    belay.save(COMM, self.run_dir, 0, {"a": numpy.zeros(3), "b": shared})
    for into, text in ((frozen, "read-only"),
                       (numpy.broadcast_to(numpy.zeros(1), 3), "read-only"),
                       (shared[0], "share memory")):
      self.assert_fails("INVALID_ARGUMENT", text, belay.restore, COMM,
                        self.run_dir, {"a": into})
    self.assert_fails("INVALID_ARGUMENT", "rows without elements",
                      belay.restore, COMM, self.run_dir,
                      {"a": belay.Rows(numpy.zeros((2, 0)))})
    self.assertEqual(belay.list_steps(self.run_dir), [0])

  def test_wrong_arguments_of_wrappers(self):
    """An error names the key and the argument, on all ranks."""
    six = numpy.zeros(6)
    refused = [
        (belay.Piece(six, 6, 3), "offset: need a tuple of int (found 3)"),
        (belay.Piece(six, 6, (0,)), "global_shape: need a tuple of int (found 6)"),
        (belay.Piece(six, "6", (0,)), "global_shape: need a tuple of int (found '6')"),
        (belay.Piece(six, None, (0,)), "need a tuple of int (found None)"),
        (belay.Piece((6,), six, (0,)),
         "belay.Piece: array: need an array of NumPy or a tensor (found a value "
         "of type tuple)"),
        (belay.LaidOut(six, 5, (6,)), "layout: need a belay.Layout (found 5)"),
        (belay.Rows(5), "belay.Rows: array: need an array of NumPy or a tensor"),
        (belay.Piece(six, (6,), (0,), replica="one"),
         "an attribute of the Piece has a type that it cannot have"),
    ]
    for wrapper, text in refused:
      for call in (belay.save, belay.restore):
        state = {"m": {"w": wrapper}}
        verb = "save" if call is belay.save else "restore"
        error = self.assert_fails("INVALID_ARGUMENT", text, call, COMM,
                                  self.run_dir, state=state, step=0)
        self.assertIn(f'{verb} "m/w": ', str(error))

  def test_what_does_not_match(self):
    state = {"a": numpy.arange(3.0), "n": 1}
    belay.save(COMM, self.run_dir, 0, state)
    mismatched = [{"a": numpy.zeros(3, "f4")}, {"a": numpy.zeros(4)},
                  {"n": 0.0}, {"n": ""}]
    for into in mismatched:
      self.assert_fails("FAILED_PRECONDITION", next(iter(into)), belay.restore,
                        COMM, self.run_dir, into)
    into = {"a": numpy.zeros(3, "f4"), "n": 0.0}
    found = belay.restore(COMM, self.run_dir, into, allow_dtype_cast=True)
    numpy.testing.assert_array_equal(into["a"], range(3))
    self.assertEqual(found.state["n"], 1.0)
    self.assertEqual(len(found.conversions), 2)
    longer = {"a": numpy.full(5, 9.0)}
    belay.restore(COMM, self.run_dir, longer, allow_shape_mismatch=True)
    numpy.testing.assert_array_equal(longer["a"], [0, 1, 2, 9, 9])

  def test_values_below_a_string_or_none(self):
    for step, value in enumerate(("x", 2, None)):
      belay.save(COMM, self.run_dir, step, {"a": value, "a/b": 1})
      expected = {"a": value, "a/b": 1}
      self.assertEqual(belay.restore(COMM, self.run_dir).state, expected)
      self.assertEqual(belay.open(self.run_dir).read_all(), expected)

  def test_a_state_on_some_ranks(self):
    belay.save(COMM, self.run_dir, 0, {"a": 1})
    if self.size > 1:
      state = None if self.rank == 1 else {"a": 0}
      self.assert_fails("INVALID_ARGUMENT", "rank 1 passes no state, but rank 0",
                        belay.restore, COMM, self.run_dir, state)

  def test_a_plan_is_kept_for_a_communicator(self):
    state = {"a": numpy.arange(3.0)}
    reused = [belay.save(COMM, self.run_dir, step, copy.deepcopy(state))
              .plan_reused for step in range(3)]
    self.assertEqual(reused, [False, True, True])


if __name__ == "__main__":
  main()
