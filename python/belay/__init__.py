"""Checkpoints of MPI programs: NumPy arrays, cut over the ranks in any way.

>>> from mpi4py import MPI
>>> import belay
>>> belay.save(MPI.COMM_WORLD, "run", 7, {"w": w, "step": 7})
>>> restored = belay.restore(MPI.COMM_WORLD, "run", {"w": w, "step": 0})
>>> belay.open("run")["w"][2:5]

A step appears under its name once all of it is on disk, and restores on any
number of ranks, with arrays cut in any other way. An error is a `belay.Error`
with the same code and text on all ranks.
"""

import belay._log
from belay._errors import Error
from belay._values import (LaidOut, ManagedRestore, ManagedSave, PerRank, Piece,
                           RestoreResult, Rows, RowsById)
from belay._core import STOPPED_EXIT_CODE, Layout, Mesh, SaveResult
from belay._core import version as __version__
from belay._save_restore import (list_steps, restore, restore_latest_or_none,
                                 save)
from belay._manager import CheckpointManager
from belay._async import AsyncSaver, PendingSave
from belay._reader import CheckpointReader, StoredArray, open

__all__ = [
    "AsyncSaver", "CheckpointManager", "CheckpointReader", "Error", "LaidOut",
    "Layout", "ManagedRestore", "ManagedSave", "Mesh", "PendingSave", "PerRank",
    "Piece", "RestoreResult", "Rows", "RowsById", "STOPPED_EXIT_CODE",
    "SaveResult", "StoredArray", "list_steps", "open", "restore",
    "restore_latest_or_none", "save"
]

for _one in (Error, LaidOut, ManagedRestore, ManagedSave, PerRank, Piece,
             RestoreResult, Rows, RowsById, Layout, Mesh, SaveResult,
             CheckpointManager, AsyncSaver, PendingSave, CheckpointReader,
             StoredArray, open, list_steps, restore, restore_latest_or_none,
             save):
  _one.__module__ = "belay"
del _one
