import datetime
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Optional, Union

import numpy
from mpi4py import MPI
from typing_extensions import Unpack

from belay import _options

_Path = Union[str, "os.PathLike[str]"]
_OtherRanks = Literal["error", "even", "first"]

__version__: str
STOPPED_EXIT_CODE: int

class Error(RuntimeError):
  code: str
  def __init__(self, message: str, code: str = ...) -> None: ...

class Mesh:
  def __init__(self, axes: Mapping[str, int]) -> None: ...
  @property
  def axes(self) -> dict[str, int]: ...
  @property
  def num_ranks(self) -> int: ...
  def coordinates(self, rank: int) -> tuple[int, ...]: ...

class Layout:
  def __init__(self, mesh: Mesh,
               axes: Sequence[Union[None, str, Sequence[str]]]) -> None: ...
  @property
  def mesh(self) -> Mesh: ...
  @property
  def ndim(self) -> int: ...
  @property
  def num_replicas(self) -> int: ...
  def local_box(self, global_shape: Sequence[int], rank: int
                ) -> tuple[tuple[int, ...], tuple[int, ...]]: ...
  def on_ranks(self, num_ranks: int) -> Layout: ...

class Piece:
  array: Any
  global_shape: Sequence[int]
  offset: Sequence[int]
  ghost: Union[None, int, Sequence[Union[int, tuple[int, int]]]]
  fill_ghosts: bool
  periodic: Optional[Sequence[bool]]
  replica: int
  def __init__(self, array: Any, global_shape: Sequence[int],
               offset: Sequence[int],
               ghost: Union[None, int,
                            Sequence[Union[int, tuple[int, int]]]] = ...,
               fill_ghosts: bool = ...,
               periodic: Optional[Sequence[bool]] = ...,
               replica: int = ...) -> None: ...

class Pieces:
  pieces: Sequence[Piece]
  def __init__(self, pieces: Sequence[Piece]) -> None: ...

class LaidOut:
  array: Any
  layout: Layout
  global_shape: Sequence[int]
  def __init__(self, array: Any, layout: Layout,
               global_shape: Sequence[int]) -> None: ...

class FlatRange:
  array: Any
  pieces: Mapping[str, Sequence[Any]]
  begin: int
  replica: int
  def __init__(self, array: Any, pieces: Mapping[str, Sequence[Any]],
               begin: int, replica: int = ...) -> None: ...

class Rows:
  array: Any
  other_ranks: _OtherRanks
  def __init__(self, array: Any, other_ranks: _OtherRanks = ...) -> None: ...

class RowsById:
  ids: Any
  array: Any
  count: int
  def __init__(self, ids: Any, array: Any, count: int = ...) -> None: ...

class PerRank:
  value: Any
  other_ranks: _OtherRanks
  def __init__(self, value: Any, other_ranks: _OtherRanks = ...) -> None: ...

class FromRank0:
  value: Any
  def __init__(self, value: Any) -> None: ...

class ShardableTensor:
  key: str
  dtype: str
  global_shape: tuple[int, ...]
  offset: tuple[int, ...]
  shape: tuple[int, ...]
  device: str
  bytes: int
  node: int
  def __init__(self, key: str, dtype: str, global_shape: Sequence[int],
               offset: Sequence[int], shape: Sequence[int], device: str,
               bytes: int, node: int) -> None: ...

class ShardingPolicy:
  description: str
  group: Callable[[list[ShardableTensor]], Sequence[Sequence[ShardableTensor]]]
  parameters: Mapping[str, str]
  def __init__(self, description: str,
               group: Callable[[list[ShardableTensor]],
                               Sequence[Sequence[ShardableTensor]]],
               parameters: Mapping[str, str] = ...) -> None: ...

class SaveResult:
  @property
  def path(self) -> str: ...
  @property
  def step(self) -> int: ...
  @property
  def num_arrays(self) -> int: ...
  @property
  def plan_reused(self) -> bool: ...
  @property
  def transfer(self) -> str: ...
  @property
  def transfer_note(self) -> str: ...
  @property
  def warnings(self) -> list[str]: ...
  @property
  def counters(self) -> dict[str, Any]: ...

class RestoreResult:
  state: Any
  step: int
  path: str
  num_arrays: int
  conversions: list[dict[str, Any]]
  missing: list[str]
  unexpected: list[str]
  mismatched: list[dict[str, Any]]
  warnings: list[str]
  counters: dict[str, Any]

class ManagedSave:
  outcome: Literal["skipped", "saved", "begun", "failed"]
  reason: str
  result: Optional[SaveResult]
  deleted: list[int]
  notes: list[str]
  failure: Optional[Error]
  finished: Optional[SaveResult]

class ManagedRestore:
  step: Optional[int]
  state: Any
  result: Optional[RestoreResult]
  skipped: list[tuple[int, Error]]
  set_aside: list[int]
  deleted: list[int]

def save(comm: MPI.Comm, directory: _Path, step: int, state: Any,
         **options: Unpack[_options.SaveOptions]) -> SaveResult: ...

def restore(comm: MPI.Comm, directory: _Path, state: Any = ..., *,
            step: Optional[int] = ...,
            **options: Unpack[_options.RestoreOptions]) -> RestoreResult: ...

def restore_latest(comm: MPI.Comm, directory: _Path, state: Any,
                           **options: Unpack[_options.RestoreOptions]) -> Optional[RestoreResult]: ...

def abort_on_exception(enabled: bool = ...) -> None: ...
def list_steps(directory: _Path, prefix: str = ...) -> list[int]: ...

class CheckpointManager:
  def __init__(self, comm: MPI.Comm, directory: _Path,
               **options: Unpack[_options.ManagerOptions]) -> None: ...
  def should_save(self, step: Optional[int] = ...) -> bool: ...
  def save(self, step: Optional[int], state: Any, *,
           metrics: Mapping[str, float] = ..., force: bool = ...,
           tolerate_failure: bool = ...,
           metadata: Mapping[str, str] = ...) -> ManagedSave: ...
  def restore(self, state: Any, *, step: Optional[int] = ...,
              **options: Unpack[_options.RestoreOptions]) -> ManagedRestore: ...
  def steps(self) -> list[int]: ...
  def latest_step(self) -> Optional[int]: ...
  def best_step(self) -> Optional[int]: ...
  def step_metrics(self, step: int) -> dict[str, float]: ...
  def step_path(self, step: int) -> str: ...
  @property
  def notes(self) -> list[str]: ...
  def should_stop(self) -> Optional[str]: ...
  def reload(self) -> None: ...
  def delete(self, step: int) -> None: ...
  def wait_for_snapshot(self) -> None: ...
  def wait(self) -> Optional[ManagedSave]: ...
  def close(self) -> None: ...
  def __enter__(self) -> CheckpointManager: ...
  def __exit__(self, kind: Optional[type[BaseException]],
               value: Optional[BaseException],
               traceback: Optional[TracebackType]) -> None: ...

class Run:
  manager: CheckpointManager
  def __init__(self, comm: MPI.Comm, directory: _Path,
               state: Union[dict[str, Any], Callable[[], Any]], *,
               load: Optional[Callable[[Any], Any]] = ...,
               **options: Unpack[_options.ManagerOptions]) -> None: ...
  def restore(self, **options: Unpack[_options.RestoreOptions]
              ) -> Optional[int]: ...
  def step(self, step: int, *, metrics: Mapping[str, float] = ...,
           force: bool = ..., tolerate_failure: bool = ...,
           metadata: Mapping[str, str] = ...) -> Optional[ManagedSave]: ...
  def should_stop(self) -> Optional[str]: ...
  def close(self) -> None: ...
  def __enter__(self) -> Run: ...
  def __exit__(self, kind: Optional[type[BaseException]],
               value: Optional[BaseException],
               traceback: Optional[TracebackType]) -> None: ...

class PendingSave:
  path: str
  step: int
  staged_bytes: int
  note: str
  @property
  def done(self) -> bool: ...
  def poll(self) -> Optional[SaveResult]: ...
  def wait(self) -> SaveResult: ...

class AsyncSaver:
  def __init__(self, comm: MPI.Comm, *, deadline_seconds: float = ...,
               **options: Unpack[_options.AsyncOptions]) -> None: ...
  def save(self, directory: _Path, step: int, state: Any,
           **options: Unpack[_options.SaveOptions]) -> PendingSave: ...
  def wait_for_snapshot(self) -> None: ...
  def poll(self) -> Optional[SaveResult]: ...
  def wait(self) -> Optional[SaveResult]: ...
  @property
  def is_pending(self) -> bool: ...
  def close(self) -> None: ...
  def __enter__(self) -> AsyncSaver: ...
  def __exit__(self, kind: Optional[type[BaseException]],
               value: Optional[BaseException],
               traceback: Optional[TracebackType]) -> None: ...

class StoredArray:
  key: str
  shape: tuple[int, ...]
  nbytes: int
  storage: str
  layout: str
  @property
  def dtype(self) -> numpy.dtype[Any]: ...
  @property
  def ndim(self) -> int: ...
  @property
  def size(self) -> int: ...
  def __len__(self) -> int: ...
  def __getitem__(self, index: Any) -> Any: ...
  def __array__(self, dtype: Any = ..., copy: Optional[bool] = ...
                ) -> numpy.ndarray[Any, Any]: ...

class CheckpointReader(Mapping[str, Union[StoredArray, str, bytes]]):
  def __init__(self, path: _Path) -> None: ...
  @property
  def path(self) -> str: ...
  @property
  def step(self) -> int: ...
  @property
  def time(self) -> datetime.datetime: ...
  @property
  def nbytes(self) -> int: ...
  def __getitem__(self, key: str) -> Union[StoredArray, str, bytes]: ...
  def __iter__(self) -> Iterator[str]: ...
  def __len__(self) -> int: ...
  def read_all(self) -> dict[str, Any]: ...
  def metadata(self) -> dict[str, str]: ...

def open(path: _Path) -> CheckpointReader: ...

_Op = Literal["update", "add", "sub", "mul", "div", "min", "max"]
_Array = Any

class FixedShards:
  num_shards: int
  def __init__(self, num_shards: int) -> None: ...

class MinSize:
  min_shard_bytes: int
  max_shards: int
  def __init__(self, min_shard_bytes: int = ...,
               max_shards: int = ...) -> None: ...

class MaxSize:
  max_shard_bytes: int
  max_shards: Optional[int]
  def __init__(self, max_shard_bytes: int,
               max_shards: Optional[int] = ...) -> None: ...

class Component:
  first_row: int
  num_rows: int
  owner: int
  array: Optional[numpy.ndarray[Any, Any]]

class ShardedVariable:
  def __init__(self, comm: MPI.Comm, name: str, dtype: Any,
               shape: Sequence[int],
               partitioner: Union[
                   FixedShards, MinSize, MaxSize,
                   Callable[[tuple[int, ...], numpy.dtype[Any], int],
                            Sequence[int]]], *,
               owners: Sequence[int] = ...,
               deadline_seconds: float = ...) -> None: ...
  @classmethod
  def join(cls, comm: MPI.Comm, name: str, components: Sequence[_Array], *,
           deadline_seconds: float = ...) -> ShardedVariable: ...
  @property
  def name(self) -> str: ...
  @property
  def dtype(self) -> numpy.dtype[Any]: ...
  @property
  def shape(self) -> tuple[int, ...]: ...
  @property
  def components(self) -> list[Component]: ...
  @property
  def bytes_sent(self) -> int: ...
  def read(self, index: Any = ..., to: Optional[int] = ..., *,
           deadline_seconds: float = ...
           ) -> Optional[numpy.ndarray[Any, Any]]: ...
  def __getitem__(self, index: Any) -> numpy.ndarray[Any, Any]: ...
  def assign(self, value: _Array, op: _Op = ..., *,
             deadline_seconds: float = ...) -> None: ...
  def assign_pieces(self, pieces: Sequence[tuple[Sequence[int], _Array]],
                    op: _Op = ..., *, deadline_seconds: float = ...
                    ) -> None: ...
  def assign_slice(self, index: Any, value: _Array, *,
                   deadline_seconds: float = ...) -> None: ...
  def __setitem__(self, index: Any, value: _Array) -> None: ...
  def scatter(self, op: _Op, indices: _Array, rows: _Array, *,
              deadline_seconds: float = ...) -> None: ...
  def lookup(self, ids: _Array, *, strategy: Literal["div", "mod"] = ...,
             max_norm: float = ..., deadline_seconds: float = ...
             ) -> numpy.ndarray[Any, Any]: ...
  def lookup_lists(self, row_splits: _Array, ids: _Array,
                   weights: Optional[_Array] = ..., *,
                   combiner: Literal["mean", "sum", "sqrtn"] = ...,
                   safe: bool = ..., default_id: int = ...,
                   strategy: Literal["div", "mod"] = ...,
                   max_norm: float = ..., deadline_seconds: float = ...
                   ) -> numpy.ndarray[Any, Any]: ...

_Progress = Union[bool, Callable[[int, int], Any]]

class SafetensorsFile:
  path: str
  num_tensors: int
  nbytes: int

class ExportResult:
  path: str
  step: int
  files: list[SafetensorsFile]
  index: str
  num_tensors: int
  nbytes: int
  left_out: dict[str, str]

class ImportResult:
  files: list[SafetensorsFile]
  num_tensors: int
  num_texts: int
  nbytes: int
  left_out: dict[str, str]
  saved: SaveResult

class CopyResult:
  source: str
  num_copied: int
  num_made: int
  num_left_out: int
  nbytes: int
  without_objects: bool
  saved: SaveResult

class VerifyResult:
  path: str
  blocks: int
  nbytes: int
  damage: list[str]

def export_safetensors(comm: MPI.Comm, directory: _Path, out: _Path,
                       step: Optional[int] = ...,
                       **options: Unpack[_options.ExportOptions]
                       ) -> ExportResult: ...

def import_safetensors(comm: MPI.Comm, files: Union[_Path, Sequence[_Path]],
                       directory: _Path, step: int,
                       **options: Any) -> ImportResult: ...

def copy_checkpoint(comm: MPI.Comm, source: _Path, directory: _Path,
                    step: Optional[int] = ..., to_step: Optional[int] = ...,
                    **options: Any) -> CopyResult: ...

def verify_checkpoint(path: _Path, *,
                      progress: _Progress = ...) -> VerifyResult: ...

def simulate(model: _Path, save: str = ..., restore: Optional[str] = ..., *,
             file_layout: Literal["shared", "per_node", "per_task"] = ...,
             read_sharing: Literal["auto", "each_rank", "once"] = ...,
             weights_only: bool = ..., ranks_per_node: int = ...,
             pad_vocabulary: int = ..., divide: int = ...
             ) -> dict[str, Any]: ...
