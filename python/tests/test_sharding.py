"""Which pieces of a rank are stored together, by functions in Python."""

import dataclasses
import os

import numpy
from mpi_case import COMM, MpiCase, main

import belay


class ShardingTest(MpiCase):

  def setUp(self):
    super().setUp()
    first = 4 * self.rank
    self.state = {
        "w": belay.Piece(numpy.arange(first, first + 4.0), (4 * self.size,),
                         (first,)),
        "moments": belay.Piece(numpy.zeros((4, 2), numpy.float32),
                               (4 * self.size, 2), (first, 0)),
    }

  def save(self, step, **options):
    options = {"file_layout": "per_task", "durable": False, **options}
    return belay.save(COMM, self.run_dir, step, self.state, **options)

  def files(self, step):
    path = os.path.join(self.run_dir, f"step_{step:08}")
    return sorted(name for name in os.listdir(path) if name.startswith("data"))

  def test_groups_of_a_function(self):
    seen = []

    def group(pieces):
      seen.append(pieces)
      return [[piece] for piece in sorted(pieces, key=lambda p: p.key)]

    policy = belay.ShardingPolicy("each key apart", group, {"version": "1"})
    for step in (1, 2):
      saved = self.save(step, sharding_policy=policy)
      self.assertEqual(saved.plan_reused, step == 2)
      self.assertEqual(len(self.files(step)), 2 * self.size)
    calls = self.size if self.rank == 0 else 0
    self.assertEqual(len(seen), calls, "once per rank, on rank 0")
    for rank, pieces in enumerate(seen):
      w = next(piece for piece in pieces if piece.key == "w")
      self.assertEqual(dataclasses.astuple(w)[:5],
                       ("w", "f64", (4 * self.size,), (4 * rank,), (4,)))
      self.assertRegex(w.device, f"/job:.*/replica:0/task:{rank}/device:CPU:0")
      self.assertEqual((w.bytes, w.node), (32, 0))
    self.state["w"].array[:] = -1
    belay.restore(COMM, self.run_dir, self.state)
    self.assert_equal_arrays(self.state["w"].array,
                             numpy.arange(4.0) + 4 * self.rank)

  def test_cut_pieces(self):
    def halves(pieces):
      return [[dataclasses.replace(
          piece, offset=(piece.offset[0] + 2 * half, *piece.offset[1:]),
          shape=(2, *piece.shape[1:])) for piece in pieces]
              for half in (0, 1)]

    self.save(1, sharding_policy=belay.ShardingPolicy("halves", halves))
    self.assertEqual(len(self.files(1)), 2 * self.size)
    found = belay.open(self.run_dir)["w"][:]
    self.assert_equal_arrays(found, numpy.arange(4.0 * self.size))

  def test_in_the_background_and_in_runs(self):
    policy = belay.ShardingPolicy("each piece apart",
                                  lambda pieces: [[piece] for piece in pieces])
    options = {"file_layout": "per_task", "durable": False,
               "sharding_policy": policy}
    with belay.AsyncSaver(COMM) as saver:
      saver.save(self.run_dir, 1, self.state, **options)
      saver.wait()
    with belay.CheckpointManager(COMM, self.run_dir, **options) as manager:
      manager.save(2, self.state)
    for step in (1, 2):
      self.assertEqual(len(self.files(step)), 2 * self.size)

  def test_mistakes(self):
    def policy(group):
      return belay.ShardingPolicy("mine", group)

    cases = [
        (policy(lambda pieces: pieces), 'policy "mine": task'),
        (policy(lambda pieces: None), "returned no groups (need a list of lists"),
        (policy(lambda pieces: [["w"]]), "need a belay.ShardableTensor, found 'w'"),
        (policy(lambda pieces: [pieces[:1]]), 'policy "mine": key "moments" box "0,4:0,2": dropped'),
        (policy(3), "sharding_policy.group: unusable value (need a function"),
        (belay.ShardingPolicy("", lambda pieces: [pieces]), "no description"),
        (belay.ShardingPolicy("x", lambda pieces: [pieces], {"a": 1}),
         "parameters: unusable value"),
        ("mine", "need a belay.ShardingPolicy, found 'mine'"),
    ]
    for given, text in cases:
      self.assert_fails("INVALID_ARGUMENT", text, self.save, 1,
                        sharding_policy=given)
    self.assert_fails("INVALID_ARGUMENT", "max_shard_size", self.save, 1,
                      max_shard_size=8, sharding_policy=policy(list))
    self.assertFalse(os.path.exists(self.run_dir))

  def test_an_exception_is_the_cause(self):
    def fail(pieces):
      raise LookupError("no such node")

    error = self.assert_fails(
        "INVALID_ARGUMENT", "no such node", self.save, 1,
        sharding_policy=belay.ShardingPolicy("mine", fail))
    if self.rank == 0:
      self.assertIsInstance(error.__cause__, LookupError)

  def test_the_variable_of_the_operator(self):
    name = "BELAY_TRANSFER"
    if self.rank == 0:
      os.environ[name] = "hdf5"
    comm = COMM.Dup()  # belay reads the variable when it first sees it
    try:
      saved = belay.save(comm, self.run_dir, 1, self.state,
                         transfer="independent")
      self.assertEqual(saved.transfer, "hdf5")
    finally:
      os.environ.pop(name, None)
      comm.Free()


if __name__ == "__main__":
  main()
