"""Sharded variables against NumPy."""

import numpy
from mpi_case import COMM, MpiCase, main

import belay


class VariableTest(MpiCase):

  def variable(self, shape=(10, 3), dtype="float32", parts=4, **options):
    return belay.ShardedVariable(COMM, "table", dtype, shape,
                                 belay.FixedShards(parts), **options)

  def filled(self, shape=(10, 3), dtype="float32", parts=4):
    """Returns a variable and its values."""
    values = numpy.arange(numpy.prod(shape)).reshape(shape).astype(dtype)
    variable = self.variable(shape, dtype, parts)
    variable.assign(values)
    return variable, values

  def test_components(self):
    variable = self.variable()
    self.assertEqual((variable.name, variable.shape, str(variable.dtype)),
                     ("table", (10, 3), "float32"))
    components = variable.components
    self.assertEqual([one.num_rows for one in components], [3, 3, 2, 2])
    self.assertEqual([one.first_row for one in components], [0, 3, 6, 8])
    for one in components:
      self.assertEqual(one.array is not None, one.owner == self.rank)
      if one.array is not None:
        self.assertEqual(one.array.shape, (one.num_rows, 3))
        one.array[...] = one.first_row  # a view
    self.assertEqual(variable.read()[:, 0].tolist(),
                     [0, 0, 0, 3, 3, 3, 6, 6, 8, 8])
    array = next((one.array for one in components if one.array is not None),
                 None)
    del variable, components
    if array is not None:  # keeps the memory
      self.assertEqual(array[0, 0], array[-1, 2])
    owners = [self.size - 1] * 4
    self.assertEqual({one.owner for one in self.variable(
        owners=owners).components}, {self.size - 1})

  def test_partitioners(self):
    def rows(partitioner):
      made = belay.ShardedVariable(COMM, "v", "f8", (10, 2), partitioner)
      return [one.num_rows for one in made.components]

    self.assertEqual(rows(belay.MaxSize(64)), [4, 3, 3])
    self.assertEqual(rows(belay.MaxSize(16, max_shards=2)), [5, 5])
    self.assertEqual(rows(belay.MinSize(48, max_shards=9)), [4, 3, 3])
    seen = []

    def three(shape, dtype, axis):
      seen.append((shape, dtype, axis))
      return [3, 1]

    self.assertEqual(rows(three), [4, 3, 3])
    self.assertEqual(seen[0], ((10, 2), numpy.dtype("f8"), 0))

  def test_partitioner_that_raises(self):
    def broken(shape, dtype, axis):
      if self.rank == self.size - 1:
        raise ZeroDivisionError("mine")
      return [1, 1]

    error = self.assert_fails("INVALID_ARGUMENT", "ZeroDivisionError: mine",
                              belay.ShardedVariable, COMM, "v", "f4", (4, 2),
                              broken)
    cause = ZeroDivisionError if self.rank == self.size - 1 else type(None)
    self.assertIs(type(error.__cause__), cause)
    for bad in (3, lambda *all: "x", lambda *all: [9, 1], lambda *all: [1, 2]):
      self.assert_fails("INVALID_ARGUMENT", "", belay.ShardedVariable, COMM,
                        "v", "f4", (4, 2), bad)

  def test_join(self):
    mine = [numpy.full((self.rank + 1, 2), self.rank, "i8") for _ in range(2)]
    variable = belay.ShardedVariable.join(COMM, "joined", mine)
    whole = numpy.concatenate([numpy.full((2 * (rank + 1), 2), rank, "i8")
                               for rank in range(self.size)])
    self.assert_equal_arrays(variable.read(), whole)
    variable.assign(whole, "add")
    for one in mine:
      self.assertTrue((one == 2 * self.rank).all())
    self.assert_fails("INVALID_ARGUMENT", "dense", belay.ShardedVariable.join,
                      COMM, "joined", [numpy.zeros((4, 4))[:, ::2]])

  def test_read(self):
    variable, values = self.filled()
    for index in (0, -1, slice(2, 9, 3), slice(None, None, -2), ...,
                  (slice(4), 1), (None, 3, ..., None), numpy.int32(4),
                  slice(0, 10**30), values[:, 0] % 2 == 0):
      self.assert_equal_arrays(variable[index], values[index])
    last = self.size - 1
    found = variable.read(slice(3, 5), to=last)
    if self.rank == last:
      self.assert_equal_arrays(found, values[3:5])
    else:
      self.assertIsNone(found)
    self.assert_fails("OUT_OF_RANGE", "", variable.read, 10)
    for bad in (True, "x", [0, 1], 1.5):
      self.assert_fails("INVALID_ARGUMENT", "", variable.read, bad)
    if self.size > 1:
      self.assert_fails("INVALID_ARGUMENT", "", variable.read, self.rank)

  def test_assign(self):
    variable, values = self.filled()
    for op, function in {"add": numpy.add, "sub": numpy.subtract,
                         "mul": numpy.multiply, "min": numpy.minimum,
                         "max": numpy.maximum}.items():
      delta = numpy.full_like(values, 7) - values
      variable.assign(delta, op)
      values = function(values, delta)
      self.assert_equal_arrays(variable.read(), values)
    variable[2:4] = 5
    variable[..., 1] = numpy.arange(10, dtype="f4")
    values[2:4] = 5
    values[..., 1] = numpy.arange(10)
    self.assert_equal_arrays(variable.read(), values)
    begin, end = (10 * (self.rank + one) // self.size for one in (0, 1))
    variable.assign_pieces([((begin, 0), values[begin:end])], "add")
    self.assert_equal_arrays(variable.read(), 2 * values)
    self.assert_fails("INVALID_ARGUMENT", "", variable.assign, values[1:])
    self.assert_fails("INVALID_ARGUMENT", "op", variable.assign, values, "pow")
    self.assert_fails("INVALID_ARGUMENT", "", variable.assign,
                      values.astype("f8"))
    self.assert_equal_arrays(variable.read(), 2 * values)

  def test_scatter_and_lookup(self):
    variable, values = self.filled()
    for rank in range(self.size):
      numpy.add.at(values, [rank, 9, rank], rank + 1)
    rows = numpy.full((3, 3), self.rank + 1, "f4")
    variable.scatter("add", [self.rank, 9, self.rank], rows)
    self.assert_equal_arrays(variable.read(), values)
    ids = (numpy.arange(4 * self.rank).reshape(2, -1) + self.rank) % 10
    self.assert_equal_arrays(variable.lookup(ids), values[ids])
    self.assert_equal_arrays(variable.lookup(ids.astype("u1")), values[ids])
    norms = numpy.linalg.norm(variable.lookup([7, 8], max_norm=2.0), axis=1)
    self.assertTrue(numpy.allclose(norms, 2))
    by_component = variable.lookup([0, 1, 4], strategy="mod")
    self.assert_equal_arrays(by_component, values[[0, 3, 1]])
    self.assertGreaterEqual(variable.bytes_sent, 8 * (self.size - 1))
    bad = [10] if self.rank == self.size - 1 else []
    self.assert_fails("OUT_OF_RANGE", "10", variable.lookup, bad)
    self.assert_fails("INVALID_ARGUMENT", "", variable.lookup, [0.5])
    self.assert_fails("INVALID_ARGUMENT", "strategy", variable.lookup, [0],
                      strategy="hash")

  def test_lookup_lists(self):
    variable, values = self.filled()
    splits, ids = [0, 2, 2, 3], [1, 4, 9]
    found = variable.lookup_lists(splits, ids)
    mean = numpy.stack([(values[1] + values[4]) / 2, 0 * values[0], values[9]])
    self.assert_equal_arrays(found, mean)
    weights = numpy.array([2, 1, 3], "f4")
    found = variable.lookup_lists(splits, ids, weights, combiner="sum")
    self.assert_equal_arrays(found[0], 2 * values[1] + values[4])
    found = variable.lookup_lists([0, 1], [-1], safe=True, default_id=3)
    self.assert_equal_arrays(found[0], values[3])

  def test_saved_on_other_ranks(self):
    """Saved on all ranks, restored on one, and in other components."""
    variable, values = self.filled((10, 3), "int16")
    belay.save(COMM, self.run_dir, 0, {"tables": [variable], "n": 1})
    self.assert_equal_arrays(belay.open(self.run_dir)["tables/0"], values)
    alone = COMM.Split(self.rank, 0)
    one = belay.ShardedVariable(alone, "one", "int16", (10, 3),
                                belay.FixedShards(7))
    restored = belay.restore(alone, self.run_dir, {"tables": [one]})
    self.assertIs(restored.state["tables"][0], one)
    self.assert_equal_arrays(one.read(), values)
    del one
    alone.Free()
    plain = numpy.zeros((10, 3), "int16")
    belay.restore(COMM, self.run_dir, {"tables": [plain]})
    self.assert_equal_arrays(plain, values)
    other = self.variable((9, 3), "int16")
    self.assert_fails("FAILED_PRECONDITION", "tables/0", belay.restore, COMM,
                      self.run_dir, {"tables": [other]})

  def test_saved_in_the_background(self):
    variable, values = self.filled()
    with belay.AsyncSaver(COMM, snapshot="lazy") as saver:
      saver.save(self.run_dir, 0, {"table": variable})
      del variable
      saver.wait_for_snapshot()
    self.assert_equal_arrays(belay.open(self.run_dir)["table"], values)

  def test_values_that_do_not_fit(self):
    whole, _ = self.filled(dtype="uint8")
    for value in (2.5, 300, -1, "5", None, [1.5], 1j, float("nan")):
      self.assert_fails("INVALID_ARGUMENT", "does not fit uint8",
                        whole.assign_slice, 0, value)
    floats, _ = self.filled(dtype="float32")
    for value in ("5", None, 1e300, 1j):
      self.assert_fails("INVALID_ARGUMENT", "does not fit float32",
                        floats.assign, value)
    floats[0] = numpy.float64(2)
    whole[1] = 3.0
    self.assertEqual(floats[0].tolist(), [2.0] * floats.shape[1])
    self.assertEqual(whole[1].tolist(), [3] * whole.shape[1])
    self.assert_fails("INVALID_ARGUMENT", "bool is not a mask", floats.read,
                      numpy.True_)
    self.assert_fails("INVALID_ARGUMENT", "is for safe", floats.lookup_lists,
                      [0, 0], [], default_id=0)
    with self.assertRaises(TypeError):
      iter(floats)
    with self.assertRaisesRegex(TypeError, "read"):
      numpy.asarray(floats)

  def test_wrong_components(self):
    one = numpy.ones((2, 2))
    for bad, text in (([one, one], "share memory"), ([[[1.0]]], "found list"),
                      (one, "need a list")):
      self.assert_fails("INVALID_ARGUMENT", text, belay.ShardedVariable.join,
                        COMM, "v", bad)

  def test_wrong_arguments(self):
    for bad in (dict(dtype="bf16"), dict(dtype="S4"), dict(shape=()),
                dict(owners=[0]), dict(loud=True), dict(shape=(-1,))):
      self.assert_fails("INVALID_ARGUMENT", "", self.variable, **bad)


if __name__ == "__main__":
  main()
