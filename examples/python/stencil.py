"""Heat on a plate, in NumPy: a stencil with ghost cells, on any number of ranks.

  mpirun -n 4 python3 stencil.py run 200     # saves every 50 steps
  mpirun -n 3 python3 stencil.py run 400     # continues from step 200

Each rank owns some rows of the plate, in an array with one ghost cell on each
side. A checkpoint has the owned rows, as one array for all ranks. A restore
also fills the ghost cells, so no exchange is needed before the first step. The
field is the same to the last bit, however often the run was stopped and on
however many ranks it continued.

With a third argument, the job kills itself in that step, without a message.
"""

import os
import signal
import sys

import numpy
from mpi4py import MPI

import belay

ROWS, COLUMNS = 96, 64
SAVE_EVERY = 50


class Plate:
  """The part of the plate that one rank holds."""

  def __init__(self, comm):
    self.comm = comm
    self.begin = ROWS * comm.rank // comm.size
    self.end = ROWS * (comm.rank + 1) // comm.size
    self.now = numpy.zeros((self.end - self.begin + 2, COLUMNS + 2))
    # What is saved and restored.
    self.state = {
        "temperature": belay.Piece(self.now, (ROWS, COLUMNS), (self.begin, 0),
                                   ghost=1, fill_ghosts=True), "step": 0}

  @property
  def owned(self):
    return self.now[1:-1, 1:-1]

  def start(self):
    """Makes a hot spot, away from the edges, which stay cold."""
    rows = numpy.arange(self.begin, self.end)[:, None]
    hot = (rows // 8 == 3) & (numpy.arange(COLUMNS) // 8 == 5)
    self.owned[hot] = 1000.0

  def exchange(self):
    """Sends the first and the last row to the ranks above and below."""
    comm = self.comm
    above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    comm.Sendrecv(self.now[1], above, recvbuf=self.now[-1], source=below)
    comm.Sendrecv(self.now[-2], below, recvbuf=self.now[0], source=above)

  def advance(self):
    """Makes one step, with the current ghost cells."""
    now = self.now
    around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
    self.owned[...] += 0.2 * (around - 4 * self.owned)
    self.state["step"] += 1

  def digest(self):
    """Returns a number that changes if any bit of the field differs."""
    bits = numpy.ascontiguousarray(self.owned).view(numpy.uint64)
    places = numpy.arange(self.begin * COLUMNS, self.end * COLUMNS,
                          dtype=numpy.uint64).reshape(bits.shape)
    mine = numpy.array((bits * (2 * places + numpy.uint64(1))).sum())
    total = numpy.empty_like(mine)
    self.comm.Allreduce(mine, total)
    return int(total)


def run(directory, steps, die_at):
  comm = MPI.COMM_WORLD
  plate = Plate(comm)
  with belay.Run(comm, directory, plate.state, save_interval_steps=SAVE_EVERY,
                 save_first_step=False) as saved:
    step = saved.restore()
    if step is None:
      plate.start()
      plate.exchange()
    elif comm.rank == 0:
      ranks = "1 rank" if comm.size == 1 else f"{comm.size} ranks"
      print(f"going on from step {step} on {ranks}", flush=True)
    while plate.state["step"] < steps:
      if plate.state["step"] == die_at and comm.rank == comm.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
      plate.advance()
      plate.exchange()
      saved.step(plate.state["step"])
  digest = plate.digest()
  if comm.rank == 0:
    print(f"step {plate.state['step']}: field {digest:016x}")


if __name__ == "__main__":
  if len(sys.argv) < 3:
    sys.exit("usage: stencil.py DIR STEPS [DIE_AT]")
  run(sys.argv[1], int(sys.argv[2]),
      int(sys.argv[3]) if len(sys.argv) > 3 else -1)
