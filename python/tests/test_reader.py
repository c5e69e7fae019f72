"""Looking into a checkpoint, without MPI."""

import datetime
import os
import subprocess
import sys
import threading

import numpy
from mpi_case import COMM, MpiCase, main

import belay

SCRIPT = """
import sys
import belay
reader = belay.open(sys.argv[1])
assert reader["w"][1:, 2].tolist() == [7.0, 12.0], reader["w"][1:, 2]
assert "mpi4py" not in sys.modules
"""


class ReaderTest(MpiCase):

  def setUp(self):
    super().setUp()
    self.w = numpy.arange(15.0).reshape(3, 5)
    self.cube = numpy.arange(2 * 3 * 4 * 5, dtype="i2").reshape(2, 3, 4, 5)
    self.state = {"w": self.w, "model": {"cube": self.cube, "name": "gr\u00fc"},
                  "n": 5, "nothing": numpy.zeros((3, 0, 2)),
                  "flags": numpy.array([True, False])}
    belay.save(COMM, self.run_dir, 4, self.state)
    self.reader = belay.open(self.run_dir)

  def test_number_as_array(self):
    belay.save(COMM, self.run_dir, 99, {"n": 7})
    self.assert_equal_arrays(numpy.asarray(belay.open(self.run_dir)["n"]),
                             numpy.array(7))

  def test_mapping(self):
    reader = self.reader
    self.assertEqual(list(reader), ["flags", "model/cube", "model/name", "n",
                                    "nothing", "w"])
    self.assertEqual(list(reader.keys()), list(reader))
    self.assertEqual(len(reader), 6)
    self.assertIn("w", reader)
    self.assertNotIn("v", reader)
    self.assertNotIn(3, reader)
    self.assertEqual(reader["model/name"], "gr\u00fc")
    self.assertIsNone(reader.get("v"))
    with self.assertRaisesRegex(KeyError, "w"):
      reader["v"]
    self.assertEqual(reader.step, 4)
    now = datetime.datetime.now(datetime.timezone.utc)
    self.assertTrue(now - datetime.timedelta(minutes=10) < reader.time <= now)
    self.assertTrue(reader.path.endswith("step_00000004"))
    self.assertIn("6 arrays", repr(reader))

  def test_names_that_are_not_utf8(self):
    key = b"m\xff\x80".decode(errors="surrogateescape")  # as C++ may give it
    state = {key: {"w": self.w, "text": "x"}, "plain": 3}
    run_dir = os.path.join(self.run_dir, "names")
    belay.save(COMM, run_dir, 1, state)
    reader = belay.open(run_dir)
    self.assertEqual(sorted(reader), [key + "/text", key + "/w", "plain"])
    self.assertIn(key + "/w", reader)
    self.assertIn("\\udcff", repr(reader[key + "/w"]))
    self.assert_equal_arrays(reader[key + "/w"][...], self.w)
    self.assertEqual(reader[key + "/text"], "x")
    for tree in (reader.read_all(), belay.restore(COMM, run_dir).state):
      self.assert_equal_arrays(tree[key]["w"], self.w)
      self.assertEqual(tree["plain"], 3)
    with self.assertRaisesRegex(KeyError, r"m.+xff"):
      reader[key[:2] + "/w"]

  def test_array(self):
    stored = self.reader["model/cube"]
    self.assertEqual(stored.shape, (2, 3, 4, 5))
    self.assertEqual(stored.dtype, numpy.dtype("i2"))
    self.assertEqual((stored.ndim, stored.size, len(stored)), (4, 120, 2))
    self.assertEqual(stored.nbytes, 240)
    self.assert_equal_arrays(stored, self.cube)
    self.assert_equal_arrays(numpy.asarray(stored, "f4"),
                             self.cube.astype("f4"))
    self.assertEqual(self.reader["n"][()], 5)
    self.assertEqual(self.reader["n"].shape, ())
    with self.assertRaises(TypeError):
      len(self.reader["n"])
    self.assertIn("model/cube", repr(stored))
    found = stored[0]
    found[...] = 0  # belongs to the program

  def test_indexes(self):
    mask = self.cube % 7 == 0
    indexes = [
        (), ..., 0, -1, slice(None), slice(1, 0), slice(-1, None, -1),
        (1, 2, 3, 4), (..., 0), (0, ..., slice(1, 4, 2)), None, (None, 1, None),
        (slice(None), slice(None, None, -2)), (slice(10), slice(-9, 2)),
        [1, 0, 1], ([0, 1], [2, 0]), ([1], slice(None), [3, 0]), [],
        (slice(None), numpy.array([[0, 2], [1, 1]])), mask, mask[0, 0, 0],
        (slice(None), [True, False, True]), ([-1, 0], ..., -1),
        numpy.int64(1), (numpy.uint8(1), 0), True, False, (0, True),
        (numpy.array(1), slice(2)), (..., [4, 0, 4]), (0, [0, 2], 1, [4, 4])
    ]
    stored = self.reader["model/cube"]
    for index in indexes:
      with self.subTest(index=index):
        try:
          expected = self.cube[index]
        except IndexError:
          with self.assertRaises(IndexError):
            stored[index]
          continue
        self.assert_equal_arrays(stored[index], expected)

  def test_wrong_indexes(self):
    stored = self.reader["w"]
    for index in (3, (0, 5), (0, 0, 0), "w", 1.5, (..., ...), [5],
                  numpy.ones((2, 5), bool), slice(0, 1, 0)):
      with self.subTest(index=index):
        with self.assertRaises((IndexError, ValueError)):
          self.w[index]
        with self.assertRaises((IndexError, ValueError)):
          stored[index]

  def test_random_indexes(self):
    random = numpy.random.default_rng(self.rank)
    stored = self.reader["model/cube"]

    def item(length):
      kind = random.integers(4)
      if kind == 0:
        return int(random.integers(-length, length))
      if kind == 1:
        return random.integers(-length, length, 3)
      start, stop = random.integers(-length - 2, length + 3, 2).tolist()
      return slice(start, stop, int(random.choice([-2, -1, 1, 2, 3])))

    for _ in range(300):
      axes = random.integers(0, 5)
      index = tuple(item(self.cube.shape[axis]) for axis in range(axes))
      with self.subTest(index=index):
        self.assert_equal_arrays(stored[index], self.cube[index])

  def test_all_values(self):
    found = self.reader.read_all()
    self.assert_equal_arrays(found["model"]["cube"], self.cube)
    self.assertEqual((found["n"], found["model"]["name"]), (5, "gr\u00fc"))
    self.assert_equal_arrays(found["nothing"], self.state["nothing"])
    self.assert_equal_arrays(self.reader["nothing"][:, :, ::-1],
                             self.state["nothing"])

  def test_floats_that_numpy_does_not_have(self):
    values = numpy.array([0, -0.0, 1, -1.5, 448, 2**-9, numpy.nan, numpy.inf,
                          -57344, 3.0, 2**-16, 0.0625], "f4")
    random = numpy.random.default_rng(3).standard_normal(3000)
    many = (random * 2.0 ** numpy.arange(-30, 30).repeat(50)).astype("f4")
    state = {"a": values, "many": many}
    lost = {"bf16": [], "f8e5m2": [4], "f8e4m3": [7, 8, 10]}
    for step, (dtype, wrong) in enumerate(lost.items(), 10):
      belay.save(COMM, self.run_dir, step, state, args={".*": {"dtype": dtype}})
      found = belay.open(self.run_dir)["a"]
      self.assertEqual(found.dtype, numpy.dtype("f4"))
      self.assertIn(dtype, repr(found))
      again, converted = numpy.zeros_like(values), numpy.zeros_like(many)
      belay.restore(COMM, self.run_dir, {"a": again, "many": converted},
                    allow_dtype_cast=True)
      self.assert_equal_arrays(belay.open(self.run_dir)["many"], converted)
      numpy.testing.assert_array_equal(found[...], again)
      self.assert_equal_arrays(numpy.signbit(found[:6]), numpy.signbit(again[:6]))
      kept = [i for i in range(len(values)) if i not in wrong]
      numpy.testing.assert_array_equal(found[...][kept], values[kept])
      everything = belay.restore(COMM, self.run_dir).state["a"]
      numpy.testing.assert_array_equal(everything, again)

  def test_errors(self):
    for path, code in ((self.dir + "/none", "NOT_FOUND"),
                       (self.dir, "NOT_FOUND")):
      with self.assertRaises(belay.Error) as caught:
        belay.open(path)
      self.assertEqual(caught.exception.code, code)
    COMM.Barrier()
    if self.rank == 0:
      file = next(name for name in os.listdir(self.reader.path)
                  if name.startswith("data_"))
      os.remove(os.path.join(self.reader.path, file))
    COMM.Barrier()
    with self.assertRaises(belay.Error) as caught:
      self.reader["w"][0]
    self.assertEqual(caught.exception.code, "DATA_LOSS")

  def test_threads(self):
    failures = []

    def read():
      for number in range(40):
        reader = belay.open(self.run_dir)
        if not numpy.array_equal(reader["w"][number % 3], self.w[number % 3]):
          failures.append(number)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    self.assertEqual(failures, [])

  def test_without_mpi(self):
    if self.rank == 0:
      environment = {key: value for key, value in os.environ.items()
                     if not key.startswith(("OMPI_", "PMIX_"))}
      subprocess.run([sys.executable, "-B", "-c", SCRIPT, self.run_dir],
                     check=True, env=environment)


if __name__ == "__main__":
  main()
