"""One rank ends while the others wait for it.

Judged from outside: all ranks end within seconds, with the text of that rank.

usage: one_rank_ends.py DIR CASE
"""

import shutil
import sys

from mpi4py import MPI

import belay

comm = MPI.COMM_WORLD
directory, case = sys.argv[1:]
if case == "switched_off":
  belay.abort_on_exception(False)
if comm.rank == 0:
  shutil.rmtree(directory, ignore_errors=True)
comm.Barrier()
manager = belay.CheckpointManager(comm, directory, overwrite=True)
if case in ("between_saves", "switched_off"):
  with manager:
    manager.save(1, {"a": 1}, force=True)
    if comm.rank == 1:
      raise ValueError("the mesh of rank 1 is inside out")
    manager.save(2, {"a": 2}, force=True)
elif case == "sys_exit":
  manager.save(1, {"a": 1}, force=True)
  if comm.rank == 1:
    sys.exit(1)
  manager.save(2, {"a": 2}, force=True)
elif case == "sys_exit_async":
  # The save that is under way is finished first.
  manager.close()
  saver = belay.AsyncSaver(comm)
  saver.save(directory + "_async", 1, {"a": 1}, overwrite=True)
  if comm.rank == 1:
    sys.exit(1)
  saver.wait()
  saver.save(directory + "_async", 2, {"a": 2}, overwrite=True)
elif case == "before_barrier":
  belay.save(comm, directory + "_plain", 1, {"a": 1}, overwrite=True)
  if comm.rank == 0:
    raise ValueError("the mesh of rank 0 is inside out")
  comm.Barrier()
elif case == "agreed":
  belay.restore(comm, directory, {"no": 1}, step=999)
  comm.Barrier()
print("the program went on", file=sys.stderr)
