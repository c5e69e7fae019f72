"""Several boxes of one array on one rank, as of fused projections."""

import os

import numpy
from mpi_case import COMM, MpiCase, main

import belay

HALF, COLUMNS = 12, 5  # rows of gate and of up, one above the other
WHOLE = numpy.arange(2 * HALF * COLUMNS, dtype="f4").reshape(2 * HALF, COLUMNS)


def part(rank, size):
  """Returns begin and end of this rank's rows of each half."""
  return HALF * rank // size, HALF * (rank + 1) // size


def fused(rank, size, fill=True, replica=0):
  """Returns the two boxes of a rank of a tensor parallel MLP."""
  begin, end = part(rank, size)
  boxes = []
  for first in (0, HALF):
    rows = WHOLE[first + begin:first + end]
    boxes.append(belay.Piece(rows.copy() if fill else numpy.zeros_like(rows),
                             WHOLE.shape, (first + begin, 0), replica=replica))
  return belay.Pieces(boxes)


class PiecesTest(MpiCase):

  def on(self, ranks):
    """Returns a communicator of the first ranks, or None on the others."""
    comm = COMM.Split(int(self.rank >= ranks), self.rank)
    self.addCleanup(comm.Free)
    return comm if self.rank < ranks else None

  def test_saved_on_some_and_restored_on_others(self):
    for step, (saving, restoring) in enumerate(
        ((4, 2), (4, 3), (4, 8), (8, 1), (1, 4), (3, 8))):
      if max(saving, restoring) > self.size:
        continue
      comm = self.on(saving)
      if comm is not None:
        for _ in range(2):  # the second with the plan of the first
          belay.save(comm, self.run_dir, step,
                     {"mlp": {"fc1": fused(comm.rank, comm.size), "n": 3}},
                     overwrite=True)
      COMM.Barrier()
      self.assert_equal_arrays(belay.open(self.run_dir)["mlp/fc1"], WHOLE)
      comm = self.on(restoring)
      if comm is not None:
        blank = fused(comm.rank, comm.size, fill=False)
        found = belay.restore(comm, self.run_dir,
                              {"mlp": {"fc1": blank, "n": 0}}, step=step)
        self.assertIs(found.state["mlp"]["fc1"], blank)
        for one, other in zip(blank.pieces,
                              fused(comm.rank, comm.size).pieces):
          self.assert_equal_arrays(one.array, other.array)
      COMM.Barrier()

  def test_a_plan_is_reused(self):
    for step in range(3):
      saved = belay.save(COMM, self.run_dir, step,
                         {"fc1": fused(self.rank, self.size)})
      self.assertEqual(saved.plan_reused, step > 0)

  def test_views_and_ranks_without_boxes(self):
    """One rank holds all, in any memory order; the others hold nothing."""
    boxes = []
    if self.rank == 0:
      boxes = [belay.Piece(numpy.asfortranarray(WHOLE[:7]), WHOLE.shape, (0, 0)),
               belay.Piece(WHOLE[7:][::-1][::-1], WHOLE.shape, (7, 0))]
    belay.save(COMM, self.run_dir, 0, {"w": belay.Pieces(boxes)})
    mine = numpy.zeros((4, COLUMNS), ">f4")
    blank = belay.Pieces([belay.Piece(mine[:2], WHOLE.shape, (3, 0)),
                          belay.Piece(mine[2:], WHOLE.shape, (20, 0))])
    belay.restore(COMM, self.run_dir, {"w": blank})
    numpy.testing.assert_array_equal(mine[:2], WHOLE[3:5])
    numpy.testing.assert_array_equal(mine[2:], WHOLE[20:22])

  def test_replicas(self):
    belay.save(COMM, self.run_dir, 0,
               {"w": fused(0, 1, replica=self.rank)})
    self.assert_equal_arrays(belay.open(self.run_dir)["w"], WHOLE)

  def test_what_is_refused(self):
    pieces = fused(self.rank, self.size).pieces
    for state, text in (
        ({"fc1": pieces}, "use belay.Pieces([...])"),
        ({"fc1": tuple(pieces)}, "use belay.Pieces([...])"),
        ({"fc1": [{"w": 1}, *pieces]}, 'save "fc1": a list has several'),
        ({"fc1": belay.Pieces([numpy.zeros(3)])},
         "a list of belay.Piece (found ndarray)"),
        ({"fc1": belay.PerRank(belay.Pieces(pieces))},
         "a belay.PerRank holds no belay.Pieces"),
        ({"fc1": belay.Pieces(pieces + pieces[:1])}, "fc1"),
        ({"fc1": belay.Pieces(pieces[:1])}, "fc1")):
      self.assert_fails("INVALID_ARGUMENT", text, belay.save, COMM,
                        self.run_dir, 0, state)
    self.assertFalse(os.path.exists(os.path.join(self.run_dir, "step_00000000")))

  def test_a_list_of_arrays_of_one_shape(self):
    """Fields on one grid, cut alike, are several arrays."""
    begin, end = part(self.rank, self.size)
    fields = [belay.Piece(number + WHOLE[begin:end], (HALF, COLUMNS), (begin, 0))
              for number in range(3)]
    belay.save(COMM, self.run_dir, 0, {"fields": fields})
    self.assert_equal_arrays(belay.open(self.run_dir)["fields/2"],
                             WHOLE[:HALF] + 2)


if __name__ == "__main__":
  main()
