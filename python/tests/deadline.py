"""The last rank comes late to a save: the others end the job.

usage: deadline.py DIR
"""

import sys
import time

from mpi4py import MPI

import belay

comm = MPI.COMM_WORLD
belay.save(comm, sys.argv[1], 0, {"a": 1})
if comm.rank == comm.size - 1:
  time.sleep(60)
belay.save(comm, sys.argv[1], 1, {"a": 1}, deadline_seconds=1)
