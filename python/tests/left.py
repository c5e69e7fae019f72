"""Ends while a save in the background is under way.

usage: left.py DIR saver|manager|lazy|policy
"""

import sys

import numpy as np
from mpi4py import MPI

import belay

comm = MPI.COMM_WORLD
directory, kind = sys.argv[1:]
state = {"w": belay.Piece(np.full((1, 50000), comm.rank, np.float32),
                          (comm.size, 50000), (comm.rank, 0)),
         "config": {"none": None, "sizes": (1, 2.5), "big": 2**70,
                    "names": ["a", "b"], "empty": [], 3: {"x": b"y"}}}
options = {"max_bytes_per_second": 500000}  # for some tenths of a second
if kind == "manager":
  manager = belay.CheckpointManager(comm, directory, async_save=options)
  assert manager.save(1, state).outcome == "begun"
else:
  if kind == "lazy":
    options["snapshot"] = "lazy"
  how = {}
  if kind == "policy":
    how["sharding_policy"] = belay.ShardingPolicy(
        "all in one", lambda shards: [list(shards)])
  saver = belay.AsyncSaver(comm, **options)
  saver.save(directory, 1, state, **how)
