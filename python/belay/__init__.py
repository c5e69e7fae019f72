"""Checkpoints of MPI programs, with NumPy arrays partitioned in any way.

>>> from mpi4py import MPI
>>> import belay
>>> belay.save(MPI.COMM_WORLD, "run", 7, {"w": w, "step": 7})
>>> restored = belay.restore(MPI.COMM_WORLD, "run", {"w": w, "step": 0})
>>> belay.open("run")["w"][2:5]

A step appears under its name once all of it is on disk. It can be restored on
any number of ranks, with arrays partitioned in any other way. An error is a
`belay.Error` with the same code and text on all ranks.
"""

import belay._log
from belay._errors import Error
from belay._exit import abort_on_exception
from belay._values import (FlatRange, FromRank0, LaidOut, ManagedRestore,
                           ManagedSave, PerRank, Piece, Pieces, RestoreResult, Rows,
                           RowsById)
from belay._core import STOPPED_EXIT_CODE, Layout, Mesh, SaveResult
from belay._core import version as __version__
from belay._save_restore import (list_steps, restore, restore_latest,
                                 save)
from belay._manager import CheckpointManager, Run
from belay._async import AsyncSaver, PendingSave
from belay._reader import CheckpointReader, StoredArray, open
from belay._variable import (Component, FixedShards, MaxSize, MinSize,
                             ShardedVariable)
from belay._copies import (CopyResult, ExportResult, ImportResult,
                           SafetensorsFile, VerifyResult, copy_checkpoint,
                           export_safetensors, import_safetensors,
                           verify_checkpoint)
from belay._sharding import ShardableTensor, ShardingPolicy
from belay._simulate import simulate

__all__ = [
    "AsyncSaver", "CheckpointManager", "CheckpointReader", "Component",
    "CopyResult", "Error", "ExportResult", "FixedShards", "FlatRange",
    "FromRank0", "ImportResult", "LaidOut", "Layout", "ManagedRestore", "ManagedSave",
    "MaxSize", "Mesh", "MinSize", "PendingSave", "PerRank", "Piece",
    "Pieces", "RestoreResult", "Rows", "RowsById", "Run", "STOPPED_EXIT_CODE",
    "SafetensorsFile", "SaveResult", "ShardableTensor", "ShardedVariable",
    "ShardingPolicy", "StoredArray", "VerifyResult", "abort_on_exception",
    "copy_checkpoint", "export_safetensors", "import_safetensors", "list_steps",
    "open", "restore", "restore_latest", "save", "simulate",
    "verify_checkpoint"
]

for _name in __all__:
  if _name != "STOPPED_EXIT_CODE":
    globals()[_name].__module__ = "belay"
del _name
