"""Sharding policies: which pieces of a rank are stored together."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class ShardableTensor:
  """A piece that a rank will write, without its values.

  Parameters
  ----------
  key : str
  dtype : str
      Such as "f32", "i64" or "string".
  global_shape, offset, shape : tuple of int
      The shape of the whole array, and the position and the shape of the piece
      in it. A string has no axes.
  device : str
      Such as "/job:train/replica:0/task:5/device:CPU:0"; the task is the rank.
  bytes : int
  node : int
      The lowest rank that shares memory with the task.
  """

  key: str
  dtype: str
  global_shape: Any
  offset: Any
  shape: Any
  device: str
  bytes: int
  node: int


@dataclasses.dataclass(frozen=True)
class ShardingPolicy:
  """A function that sorts what a rank writes into groups.

  Parameters
  ----------
  description : str
      Names the policy in errors; not empty. Equal on all ranks.
  group : callable
      ``group(pieces)`` gets a list of `ShardableTensor`, all of one rank, and
      returns a list of groups, which are lists of these. It may split a piece
      into boxes: ``dataclasses.replace(piece, offset=..., shape=...)``. It is
      called on rank 0, once for each rank that writes something, and must not
      communicate.
  parameters : dict of str to str, optional
      Everything besides the pieces that the result depends on, or a version.
      Saves reuse their plan while description and parameters stay the same.
      Without parameters, every save calls the function and plans again.

  Examples
  --------
  >>> policy = belay.ShardingPolicy("weights apart", lambda pieces: [
  ...     group for group in (
  ...         [p for p in pieces if p.key.startswith("model/")],
  ...         [p for p in pieces if not p.key.startswith("model/")]) if group])
  >>> belay.save(comm, "run", 7, state, sharding_policy=policy)
  """

  description: str
  group: Any
  parameters: Any = dataclasses.field(default_factory=dict)
