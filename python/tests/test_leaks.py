"""No reference and no memory is lost in saves, restores, readers, errors."""

import gc
import os
import sys
import weakref

import numpy
from mpi_case import COMM, MpiCase, main

import belay

ROUNDS = int(os.environ.get("BELAY_TEST_ROUNDS", "250"))


def resident_bytes():
  with open("/proc/self/statm", encoding="ascii") as file:
    return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class LeakTest(MpiCase):

  def setUp(self):
    super().setUp()
    self.text = "text " * 10
    self.array = numpy.arange(20000.0)
    self.piece = belay.Piece(numpy.ones((5, 3)), (5 * self.size, 3),
                             (5 * self.rank, 0))
    self.state = {"a": self.array, "t": self.array[::2], "p": self.piece,
                  "big": numpy.arange(1000, dtype=">f8"), "s": self.text,
                  "n": 3, "none": None, "list": [1, (2.5, b"x")],
                  "rows": belay.Rows(numpy.ones((self.rank + 1, 2))),
                  "own": belay.PerRank({"k": self.rank, "s": "r" * self.rank})}

  def references(self):
    """Returns the reference counts of what only the state holds."""
    counted = []

    def count(value):
      if value is not None and not isinstance(value, (int, float)):
        counted.append(sys.getrefcount(value))
      if isinstance(value, dict):
        for item in value.values():
          count(item)
      elif isinstance(value, (list, tuple)):
        for item in value:
          count(item)

    count(self.state)
    for value in (self.piece.array, self.piece.global_shape,
                  self.state["own"].value["s"]):
      counted.append(sys.getrefcount(value))
    return counted

  def check_rounds(self, call, rounds=ROUNDS, slack=2 << 20):
    """Asserts that many calls leave as much behind as few."""
    for _ in range(20):
      call()
    gc.collect()
    references, objects = self.references(), len(gc.get_objects())
    before = resident_bytes()
    for _ in range(rounds):
      call()
    gc.collect()
    self.assertEqual(self.references(), references)
    self.assertLess(len(gc.get_objects()), objects + 50)
    self.assertLess(resident_bytes() - before, slack)

  def save(self, **options):
    belay.save(COMM, self.run_dir, 0, self.state, overwrite=True, durable=False,
               **options)

  def test_saves(self):
    self.check_rounds(self.save)

  def test_restores(self):
    self.save()
    self.check_rounds(lambda: belay.restore(COMM, self.run_dir, self.state))
    self.check_rounds(lambda: belay.restore(COMM, self.run_dir), ROUNDS // 4)

  def test_errors(self):
    last = self.rank == self.size - 1
    bad = {"a": self.array, "b": object() if last else 1}

    def fail():
      for state in (bad, {"none_such": self.array}):
        try:
          belay.restore(COMM, self.run_dir, state)
        except belay.Error:
          continue
        self.fail("no error")

    self.save()
    self.check_rounds(fail)

  def test_background(self):
    with belay.AsyncSaver(COMM) as saver:
      self.check_rounds(lambda: saver.save(
          self.run_dir, 0, self.state, overwrite=True, durable=False).wait())

  def test_managers(self):
    def run():
      with belay.CheckpointManager(COMM, self.run_dir, durable=False,
                                   max_to_keep=1) as manager:
        manager.restore(self.state)
        manager.save(None, self.state)

    self.check_rounds(run, ROUNDS // 10)

  def test_readers(self):
    self.save()

    def read():
      reader = belay.open(self.run_dir)
      for key in reader:
        value = reader[key]
        if isinstance(value, belay.StoredArray):
          value[...]

    self.check_rounds(read, ROUNDS // 4)

  def test_arrays_are_freed(self):
    self.save()
    for use in (lambda state: belay.save(COMM, self.run_dir, 1, state,
                                         overwrite=True),
                lambda state: belay.restore(COMM, self.run_dir, state)):
      array = numpy.arange(20000.0)
      seen = weakref.ref(array)
      use({"a": array})
      del array
      self.assertIsNone(seen())


if __name__ == "__main__":
  main()
