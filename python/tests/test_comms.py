"""Communicators of any kind."""

import threading
import time

import numpy
from mpi_case import COMM, MpiCase, main
from mpi4py import MPI

import belay


class CommTest(MpiCase):

  def save_on(self, comm, name):
    state = {"w": belay.Piece(numpy.full((1, 2), comm.rank), (comm.size, 2),
                              (comm.rank, 0))}
    directory = f"{self.run_dir}_{name}"
    belay.save(comm, directory, 0, state)
    expected = numpy.arange(comm.size)[:, None] * [1, 1]
    found = numpy.zeros_like(expected)
    belay.restore(comm, directory, {"w": found})
    numpy.testing.assert_array_equal(found, expected)
    return directory

  def test_kinds(self):
    for name, comm in (("self", MPI.COMM_SELF), ("dup", COMM.Dup()),
                       ("cart", COMM.Create_cart([self.size], [True])),
                       ("split", COMM.Split(self.rank % 2, -self.rank)),
                       ("node", COMM.Split_type(MPI.COMM_TYPE_SHARED))):
      own = name in ("self", "split")
      self.save_on(comm, f"{name}_{self.rank % 2 if name == 'split' else ''}"
                   if name != "self" else f"self_{self.rank}")
      self.assertTrue(own or comm.size == self.size)
      if name != "self":
        comm.Free()

  def test_many_communicators_come_and_go(self):
    for _ in range(300):
      comm = COMM.Dup()
      with self.assertRaises(belay.Error):
        belay.restore(comm, self.run_dir, {"a": 0})
      comm.Free()

  def test_messages_of_the_program_stay_apart(self):
    request = COMM.irecv(source=(self.rank - 1) % self.size, tag=0)
    self.save_on(COMM, "world")
    COMM.send(self.rank, dest=(self.rank + 1) % self.size, tag=0)
    self.assertEqual(request.wait(), (self.rank - 1) % self.size)

  def test_two_threads_make_the_first_call(self):
    """Rank 0 waits for the others in one thread; another one gets the error."""
    comm = COMM.Dup()
    first = threading.Thread(target=self.save_on, args=(comm, "threads"))
    if self.rank == 0 and self.size > 1:
      first.start()
      while first.is_alive():
        try:
          belay.restore(comm, self.run_dir, deadline_seconds=20)
        except belay.Error as error:
          self.assertEqual(error.code, "FAILED_PRECONDITION")
          self.assertIn("another thread", str(error))
          break
        time.sleep(0.01)
      else:
        self.fail("no call was refused")
      with self.assertRaisesRegex(belay.Error, "another thread"):
        belay.CheckpointManager(comm, self.run_dir)
    COMM.Barrier()
    if self.rank == 0 and self.size > 1:
      first.join()
    else:
      self.save_on(comm, "threads")
    comm.Free()

  def test_intercommunicator(self):
    if self.size == 1:
      return
    half = COMM.Split(min(self.rank, 1), self.rank)
    inter = half.Create_intercomm(0, COMM, 1 if self.rank == 0 else 0)
    with self.assertRaises(belay.Error) as caught:
      belay.save(inter, self.run_dir, 0, {"a": 1})
    self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
    inter.Free()
    half.Free()


if __name__ == "__main__":
  main()
