"""Rank 0 makes the call A, the others the call B.

Judged from outside: the job ends with an error that says so or by the deadline,
and neither crashes nor hangs.

usage: different_calls.py DIR A B
"""

import os
import shutil
import sys

import numpy
from mpi4py import MPI

import belay

comm = MPI.COMM_WORLD
work, *names = sys.argv[1:]
run = os.path.join(work, "run")
if comm.rank == 0:
  shutil.rmtree(work, ignore_errors=True)
  os.makedirs(work)
comm.Barrier()
limit = {"deadline_seconds": 1}
world = comm.Dup()
belay.save(world, run, 1, {"a": 1}, **limit)
manager = belay.CheckpointManager(comm, os.path.join(work, "managed"), **limit)
manager.save(1, {"a": 1})
saver = belay.AsyncSaver(comm, **limit)
table = belay.ShardedVariable(world, "table", "float32", (8, 2),
                              belay.FixedShards(2), **limit)
state = {"a": 0}


def save_again():
  for step in range(2, 5):
    manager.save(step, {"a": step})


calls = {
    "save": lambda: belay.save(world, run, 2, {"a": 1}, **limit),
    "restore": lambda: belay.restore(world, run, state, **limit),
    "restore_all": lambda: belay.restore(world, run, **limit),
    "restore_latest": lambda: belay.restore_latest(world, run, state,
                                                           **limit),
    "copy": lambda: belay.copy_checkpoint(world, run, work + "/copy", 1,
                                          **limit),
    "read": lambda: table.read(**limit),
    "scatter": lambda: table.scatter("add", [1], numpy.ones((1, 2), "float32"),
                                     **limit),
    "free": world.Free,
    "manager_save": save_again,
    "manager_restore": lambda: manager.restore(state),
    "should_save": lambda: manager.should_save(2),
    "reload": manager.reload,
    "manager_wait": manager.wait,
    "delete": lambda: manager.delete(1),
    "close": manager.close,
    "saver_save": lambda: saver.save(work + "/async", 1, state, **limit),
    "saver_close": saver.close,
    "nothing": lambda: comm.Barrier(),
}
calls[names[0 if comm.rank == 0 else 1]]()
comm.Barrier()
print("no rank has noticed", file=sys.stderr)
