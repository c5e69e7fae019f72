"""What differs between ranks: pieces, layouts, rows, values of each rank."""

import numpy
from mpi_case import COMM, MpiCase, main

import belay


def part(length, rank, size):
  """Returns begin and end of an even part."""
  return length * rank // size, length * (rank + 1) // size


class CutTest(MpiCase):

  def setUp(self):
    super().setUp()
    self.whole = numpy.arange(7 * 5.0).reshape(7, 5)

  def rows_of(self, array, rank=None, size=None):
    begin, end = part(len(array), self.rank if rank is None else rank,
                      self.size if size is None else size)
    return belay.Piece(array[begin:end].copy(), array.shape, (begin, 0))

  def test_replicas_of_a_piece(self):
    """Ranks of equal parity hold the same half."""
    halves = min(2, self.size)
    half, replica = self.rank % halves, self.rank // halves
    begin, end = part(7, half, halves)
    mine = self.whole[begin:end].copy()
    belay.save(COMM, self.run_dir, 0, {
        "w": belay.Piece(mine, (7, 5), (begin, 0), replica=replica)})
    mine[...] = 0
    blank = belay.Piece(mine.T.copy().T, (7, 5), (begin, 0), replica=replica)
    belay.restore(COMM, self.run_dir, {"w": blank})
    self.assert_equal_arrays(blank.array, self.whole[begin:end])
    self.assert_fails(
        "INVALID_ARGUMENT", "ghost", belay.save, COMM, self.run_dir, 1,
        {"w": belay.Piece(mine, (7, 5), (begin, 0), ghost=0, replica=1)})

  def test_flat_range(self):
    """Ranges of other lengths, whole arrays, and padding at the end."""
    pieces = {"w": (7, 5), "b/c": (3,), "none": (0, 2), "s": ()}
    values = [self.whole, numpy.arange(3.0), numpy.zeros((0, 2)),
              numpy.array(9.0)]
    flat = numpy.concatenate([one.ravel() for one in values])
    length = -(-len(flat) // self.size) + 1
    padded = numpy.pad(flat, (0, length * self.size - len(flat)))
    begin = length * self.rank
    mine = padded[begin:begin + length].copy()
    belay.save(COMM, self.run_dir, 0, {
        "m": belay.FlatRange(mine, pieces, begin)})
    reader = belay.open(self.run_dir)
    for name, value in zip(pieces, values):
      self.assert_equal_arrays(reader[f"m/{name}"], value)
    some = numpy.zeros(11)  # of another flat buffer, with a box of an array
    box = belay.FlatRange(some, {"w": ((7, 5), (2, 1), (5, 3))}, 2)
    found = belay.restore(COMM, self.run_dir, {"m": box})
    self.assertIs(found.state["m"], box)
    self.assert_equal_arrays(some, self.whole[2:, 1:4].ravel()[2:13])
    whole = numpy.zeros((7, 5))
    belay.restore(COMM, self.run_dir, {"m": {"w": whole}})
    self.assert_equal_arrays(whole, self.whole)

  def test_rows_are_filled_in_place(self):
    fields = numpy.zeros(3, [("id", "i8"), ("x", "f8", 3)])
    fields["id"] = numpy.arange(3) + 10 * self.rank
    ids = numpy.arange(self.rank, 2 * self.size, self.size)
    state = {"atoms": belay.Rows(fields), "same": belay.Rows(self.whole[::2]),
             "cells": belay.RowsById(ids, ids * 2.0),
             "own": belay.PerRank({"a": numpy.arange(4) + self.rank, "n": 3})}
    belay.save(COMM, self.run_dir, 0, state)
    whole = numpy.zeros_like(self.whole)
    blank = {"atoms": belay.Rows(numpy.zeros_like(fields)),
             "same": belay.Rows(whole[::2]),
             "cells": belay.RowsById(ids, numpy.zeros(2)),
             "own": belay.PerRank({"a": numpy.zeros(4, int), "n": 0})}
    passed = {key: blank[key].array for key in ("atoms", "same", "cells")}
    own = blank["own"].value["a"]
    found = belay.restore(COMM, self.run_dir, blank).state
    for key, array in passed.items():
      self.assertIs(found[key].array, array)
      self.assert_equal_arrays(array, state[key].array)
    self.assert_equal_arrays(whole[::2], self.whole[::2])
    self.assertFalse(whole[1::2].any())
    self.assertIs(found["own"].value["a"], own)
    self.assert_equal_arrays(own, numpy.arange(4) + self.rank)
    self.assertEqual(found["own"].value["n"], 3)

  def test_rows_that_are_not_filled_are_told(self):
    belay.save(COMM, self.run_dir, 0, {"atoms": belay.Rows(self.whole)})
    frozen = numpy.zeros_like(self.whole)
    frozen.flags.writeable = False
    for array, text in ((numpy.full((2, 5), -1.0), "(has 2 rows, restored 7)"),
                        (frozen, "(is read-only)")):
      before = array.copy()
      with self.assertLogs("belay", "WARNING") as log:
        found = belay.restore(COMM, self.run_dir, {"atoms": belay.Rows(array)})
      self.assertIn(f'the array of "atoms" {text} was not filled',
                    "".join(log.output))
      self.assert_equal_arrays(array, before)
      self.assert_equal_arrays(found.state["atoms"].array, self.whole)
    with self.assertNoLogs("belay", "WARNING"):
      found = belay.restore(COMM, self.run_dir,
                            {"atoms": belay.Rows(numpy.zeros((0, 5)))})
    self.assert_equal_arrays(found.state["atoms"].array, self.whole)

  def test_wrong_flat_ranges(self):
    last = self.rank == self.size - 1
    good = (numpy.zeros(4), {"a": (4,)}, 0, self.rank)
    for bad, text in (
        ((numpy.zeros((2, 2)), {"a": (4,)}, 0), "one axis"),
        ((numpy.zeros(8)[::2], {"a": (4,)}, 0), "dense"),
        ((numpy.zeros(4), {"a": (4,)}, -1), "range"),
        ((numpy.zeros(4), {"a": "x"}, 0), ""),
        ((numpy.zeros(4), [1], 0), "")):
      flat = belay.FlatRange(*(bad if last else good))
      self.assert_fails("INVALID_ARGUMENT", text, belay.save, COMM,
                        self.run_dir, 0, {"m": flat})
    gap = belay.FlatRange(numpy.zeros(2), {"a": (4 * self.size,)},
                          4 * self.rank)
    self.assert_fails("INVALID_ARGUMENT", "m/a", belay.save, COMM, self.run_dir,
                      0, {"m": gap})

  def test_rows_are_restored_as_columns(self):
    belay.save(COMM, self.run_dir, 0, {"w": self.rows_of(self.whole)})
    begin, end = part(5, self.rank, self.size)
    mine = numpy.zeros((5, 7)).T[:, begin:end]  # with strides
    piece = belay.Piece(mine, (7, 5), (0, begin))
    found = belay.restore(COMM, self.run_dir, {"w": piece})
    self.assertIs(found.state["w"], piece)
    numpy.testing.assert_array_equal(mine, self.whole[:, begin:end])
    self.assert_equal_arrays(belay.open(self.run_dir)["w"], self.whole)

  def test_one_rank_has_all(self):
    mine = self.whole if self.rank == 0 else numpy.zeros((0, 5))
    offset = (0, 0) if self.rank == 0 else (7, 0)
    belay.save(COMM, self.run_dir, 0,
               {"w": belay.Piece(mine, (7, 5), offset)})
    found = numpy.zeros_like(self.whole)
    belay.restore(COMM, self.run_dir, {"w": found})
    self.assert_equal_arrays(found, self.whole)

  def test_ghost_cells(self):
    begin, end = part(7, self.rank, self.size)
    field = numpy.full((end - begin + 3, 5 + 2), -1.0)
    field[1:-2, 1:-1] = self.whole[begin:end]
    ghost = ((1, 2), 1)
    state = {"u": belay.Piece(field, (7, 5), (begin, 0), ghost=ghost)}
    belay.save(COMM, self.run_dir, 0, state)
    self.assert_equal_arrays(belay.open(self.run_dir)["u"], self.whole)
    found = numpy.full_like(field, -2.0)
    piece = belay.Piece(found, (7, 5), (begin, 0), ghost=ghost,
                        fill_ghosts=True, periodic=(True, False))
    belay.restore(COMM, self.run_dir, {"u": piece})
    expected = numpy.full_like(field, -2.0)
    wrapped = numpy.arange(begin - 1, end + 2) % 7
    expected[:, 1:-1] = self.whole[wrapped]
    self.assert_equal_arrays(found, expected)

  def test_layout(self):
    mesh = belay.Mesh({"x": self.size, "y": 1})
    layout = belay.Layout(mesh, ["x", None])
    offset, shape = layout.local_box((7, 5), self.rank)
    mine = self.whole[offset[0]:offset[0] + shape[0]].copy()
    belay.save(COMM, self.run_dir, 0,
               {"w": belay.LaidOut(mine, layout, (7, 5))})
    stored = belay.open(self.run_dir)["w"]
    self.assert_equal_arrays(stored, self.whole)
    self.assertEqual(stored.layout, f"[x,-] on x={self.size},y=1")
    other = belay.Layout(mesh, [[], ["y", "x"]])
    offset, shape = other.local_box((7, 5), self.rank)
    found = numpy.zeros(shape)
    belay.restore(COMM, self.run_dir,
                  {"w": belay.LaidOut(found, other, (7, 5))})
    numpy.testing.assert_array_equal(
        found, self.whole[:, offset[1]:offset[1] + shape[1]])
    self.assertEqual(layout.on_ranks(2 * self.size).mesh.num_ranks,
                     2 * self.size)
    self.assertEqual(mesh.coordinates(self.size - 1), (self.size - 1, 0))

  def test_mesh_of_other_ranks(self):
    """Every save and restore names the array and both numbers."""
    belay.save(COMM, self.run_dir, 0, {"w": self.whole})
    for ranks in {max(1, self.size - 1), self.size + 1, 8} - {self.size}:
      layout = belay.Layout(belay.Mesh({"y": ranks, "x": 1}), [None, "x"])
      for array in (self.whole.copy(), self.whole[:1].copy()):
        state = {"w": belay.LaidOut(array, layout, (7, 5))}
        text = (f'"w": the layout [-,x] on y={ranks},x=1 is for another number '
                f"of ranks (need {self.size}, found {ranks}); "
                "Layout.on_ranks makes one")
        self.assert_fails("INVALID_ARGUMENT", text, belay.save, COMM,
                          self.run_dir, 1, state)
        self.assert_fails("INVALID_ARGUMENT", text, belay.restore, COMM,
                          self.run_dir, state)
        self.assert_fails("INVALID_ARGUMENT", text,
                          belay.restore_latest, COMM, self.run_dir,
                          state)

  def test_from_rank0(self):
    """Values that each rank computes, perhaps with another last bit."""
    for step in range(3):
      mine = {"dt": 0.25 * (1 + self.rank * 2.0 ** -52), "steps": self.rank + 3,
              "name": "r" * (self.rank + 1), "on": self.rank == 0,
              "norms": numpy.arange(4.0) + self.rank,
              "nested": [self.rank + 0.5, (numpy.float32(self.rank),)],
              "time": numpy.float64(self.rank), "b": b"ab", "l": [1.5, 2.5]}
      belay.save(COMM, self.run_dir, step,
                 {"own": belay.FromRank0(mine), "n": 1})
      blank = {"dt": 0.0, "steps": 0, "name": "", "on": False,
               "norms": numpy.zeros(4), "nested": [0.0, (numpy.float32(0),)],
               "time": numpy.float64(9), "b": b"", "l": [0.0, 0.0]}
      found = belay.restore(COMM, self.run_dir,
                            {"own": belay.FromRank0(blank), "n": 0}).state
      own = found["own"].value
      self.assertIsInstance(found["own"], belay.FromRank0)
      self.assert_equal_arrays(own["norms"], numpy.arange(4.0))
      self.assertIs(own["norms"], blank["norms"])
      self.assertEqual(
          [own[name] for name in ("dt", "steps", "name", "on", "nested", "time",
                                  "b", "l")],
          [0.25, 3, "r", True, [0.5, (0.0,)], 0.0, b"ab", [1.5, 2.5]])
    if self.size > 1:
      self.assert_fails("INVALID_ARGUMENT", "by belay.FromRank0", belay.save,
                        COMM, self.run_dir, 9, {"dt": 0.5 + self.rank})

  def test_rows(self):
    mine = numpy.full((self.rank + 1, 2), self.rank, "i4")
    belay.save(COMM, self.run_dir, 0, {"p": belay.Rows(mine)})
    into = belay.Rows(numpy.zeros((0, 2), "i4"))
    found = belay.restore(COMM, self.run_dir, {"p": into}).state["p"]
    self.assertIsInstance(found, belay.Rows)
    self.assert_equal_arrays(found.array, mine)
    self.assert_equal_arrays(into.array, mine)  # a new array
    found.array[...] = 9  # belongs to the program

  def test_rows_of_structs(self):
    dtype = numpy.dtype([("id", "i8"), ("c", "u1"), ("x", "f8", (3,)),
                         ("in", [("y", "f4"), ("z", "i2")])], align=True)
    mine = numpy.zeros(2 * self.rank + 1, dtype)
    mine["id"] = 10 * self.rank + numpy.arange(len(mine))
    mine["x"] = mine["id"][:, None] / [2, 3, 4]
    mine["in"]["z"] = -mine["id"]
    belay.save(COMM, self.run_dir, 0, {"p": belay.Rows(mine)})
    into = {"p": belay.Rows(numpy.zeros(0, dtype))}
    found = belay.restore(COMM, self.run_dir, into).state["p"].array
    self.assertEqual(found.dtype, dtype)
    for name in dtype.names:
      self.assertEqual(found[name].tolist(), mine[name].tolist())
    stored = belay.open(self.run_dir)["p"]
    everyone = numpy.concatenate(COMM.allgather(mine))
    self.assertEqual(stored.shape, everyone.shape)
    self.assertEqual(stored.dtype.names, ("id", "c", "x", "in.y", "in.z"))
    numpy.testing.assert_array_equal(stored["x"], everyone["x"])
    for whole in (belay.open(self.run_dir).read_all(),
                  belay.restore(COMM, self.run_dir).state,
                  belay.restore(COMM, self.run_dir, {"p": None}).state):
      self.assert_equal_arrays(whole["p"], stored[...])
      self.assertEqual(whole["p"]["x"].tolist(), everyone["x"].tolist())
    numpy.testing.assert_array_equal(stored[1:]["in.z"],
                                     everyone[1:]["in"]["z"])

  def test_rows_by_id(self):
    total = 4 * self.size
    ids = numpy.arange(self.rank, total, self.size)
    belay.save(COMM, self.run_dir, 0,
               {"t": belay.RowsById(ids, ids * 2.5, count=total)})
    self.assert_equal_arrays(belay.open(self.run_dir)["t"],
                             numpy.arange(total) * 2.5)
    wanted = numpy.array([total - 1, 0, self.rank], "u4")
    into = {"t": belay.RowsById(wanted, numpy.zeros(0))}
    found = belay.restore(COMM, self.run_dir, into).state["t"].array
    self.assert_equal_arrays(found, wanted * 2.5)

  def test_values_of_each_rank(self):
    mine = {"text": "r" * self.rank, "bytes": bytes(range(self.rank)),
            "number": self.rank, "float": numpy.float32(self.rank / 2),
            "list": [numpy.arange(self.rank), self.rank % 2 == 0]}
    blank = {"text": "", "bytes": b"", "number": 0, "float": numpy.float32(0),
             "list": [numpy.zeros(0, int), False]}
    belay.save(COMM, self.run_dir, 0, {"own": belay.PerRank(mine)})
    found = belay.restore(COMM, self.run_dir,
                          {"own": belay.PerRank(blank)}).state["own"].value
    self.assert_equal_arrays(found["list"].pop(0), mine["list"].pop(0))
    self.assertEqual(found, mine)
    self.assertIs(type(found["float"]), numpy.float32)

  def test_what_is_refused(self):
    wrong = [
        ("OUT_OF_RANGE", belay.Piece(numpy.zeros((2, 5)), (7, 5), (6, 0)), "w"),
        ("INVALID_ARGUMENT", belay.Piece(numpy.zeros((2, 5)), (7, 5), (0, 0)),
         "w"),
        ("INVALID_ARGUMENT", belay.Piece(numpy.zeros(3), (3,), (0,), ghost=2),
         "fewer cells than ghost cells"),
        ("INVALID_ARGUMENT", belay.Rows(numpy.float64(3)), "at least one axis"),
        ("INVALID_ARGUMENT", belay.PerRank(None), "None"),
        ("INVALID_ARGUMENT", belay.PerRank(belay.Rows(numpy.zeros(2))),
         "holds no belay.Rows"),
        ("INVALID_ARGUMENT", belay.Rows(numpy.zeros(2), "all"), "other_ranks"),
        ("INVALID_ARGUMENT", belay.FromRank0(belay.PerRank(1)),
         "belay.FromRank0 holds no belay.PerRank"),
        ("INVALID_ARGUMENT", belay.FromRank0([1, None]),
         "belay.FromRank0 holds numbers"),
        ("INVALID_ARGUMENT", belay.FromRank0(2**70),
         "belay.FromRank0 holds numbers"),
        ("INVALID_ARGUMENT", belay.RowsById([0.5], numpy.zeros(1)), "ids"),
    ]
    for code, value, text in wrong:
      self.assert_fails(code, text, belay.save, COMM, self.run_dir, 0,
                        {"w": value})


if __name__ == "__main__":
  main()
