import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy
import torch
from mpi4py import MPI
from typing_extensions import Unpack

import belay
from belay import FlatRange, LaidOut, Mesh, Piece, _options

_Placement = Union[Shard, Replicate]

class Replicate:
  def __init__(self) -> None: ...

class Shard:
  dim: int
  def __init__(self, dim: int) -> None: ...

def cut(tensor: torch.Tensor, mesh: Mesh, placements: Sequence[_Placement],
        rank: int, global_shape: Optional[Sequence[int]] = ...
        ) -> Union[torch.Tensor, LaidOut, Piece]: ...

def state_dict(module: torch.nn.Module,
               optimizer: Optional[torch.optim.Optimizer] = ..., *,
               placements: Mapping[str, Sequence[_Placement]] = ...,
               mesh: Mesh = ..., rank: int = ...,
               global_shapes: Mapping[str, Sequence[int]] = ...
               ) -> dict[str, Any]: ...

def blank_state_dict(module: torch.nn.Module,
                     optimizer: Optional[torch.optim.Optimizer] = ..., *,
                     placements: Mapping[str, Sequence[_Placement]] = ...,
                     mesh: Mesh = ..., rank: int = ...,
                     global_shapes: Mapping[str, Sequence[int]] = ...
                     ) -> dict[str, Any]: ...

def load_state_dict(module: torch.nn.Module,
                    optimizer: Optional[torch.optim.Optimizer],
                    state: Mapping[str, Any]) -> None: ...

class Run(belay.Run):
  def __init__(self, comm: MPI.Comm, directory: Union[str, "os.PathLike[str]"],
               model: torch.nn.Module,
               optimizer: Optional[torch.optim.Optimizer] = ..., *,
               others: Optional[Mapping[str, Any]] = ...,
               generators: Optional[Mapping[str, Union[
                   torch.Generator, numpy.random.Generator]]] = ...,
               state: Optional[dict[str, Any]] = ...,
               placements: Optional[Mapping[str, Sequence[_Placement]]] = ...,
               mesh: Optional[Mesh] = ...,
               global_shapes: Optional[Mapping[str, Sequence[int]]] = ...,
               **options: Unpack[_options.ManagerOptions]) -> None: ...

class FlatShards:
  shapes: dict[str, tuple[int, ...]]
  numel: int
  length: int
  begin: int
  end: int
  def __init__(self, shapes: Mapping[str, Union[Sequence[int], torch.Tensor]],
               rank: int, size: int, multiple: int = ...) -> None: ...
  def range(self, tensor: torch.Tensor) -> FlatRange: ...
  def take(self, tensors: Iterable[torch.Tensor]) -> torch.Tensor: ...
  def put(self, flat: torch.Tensor,
          tensors: Iterable[torch.Tensor]) -> None: ...
