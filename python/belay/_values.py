"""Wrappers for values that differ between ranks, and results of calls.

The constructors check nothing: the save or the restore finds a mistake of one
rank and reports it on all ranks.
"""

import dataclasses
from typing import Any


@dataclasses.dataclass(eq=False)
class Piece:
  """A box of an array that is partitioned over the ranks.

  Parameters
  ----------
  array : numpy.ndarray
      The elements of the box, and those of ghost cells around it. A restore
      fills it in place.
  global_shape : sequence of int
      The shape of the whole array, the same on all ranks.
  offset : sequence of int
      Where the box begins, without ghost cells.
  ghost : int or sequence, optional
      The number of ghost cells at each end of each axis: one number for all,
      or for each axis a number or a pair (before, after).
  fill_ghosts : bool, optional
      Let a restore fill the ghost cells that are inside the whole array.
  periodic : sequence of bool, optional
      For each axis, whether ghost cells beyond one end are filled from the
      other end.
  replica : int, optional
      Ranks that hold the same box have different numbers here.

  Notes
  -----
  The boxes of all ranks must tile the array. A rank without elements passes an
  array in which one length is 0. Any number of ranks may restore any other
  boxes.

  Examples
  --------
  >>> rows = numpy.zeros((4, 8))
  >>> belay.Piece(rows, (4 * comm.size, 8), (4 * comm.rank, 0))
  """

  array: Any
  global_shape: Any
  offset: Any
  ghost: Any = None
  fill_ghosts: bool = False
  periodic: Any = None
  replica: int = 0


@dataclasses.dataclass(eq=False)
class Pieces:
  """Several boxes of one array that this rank holds.

  Parameters
  ----------
  pieces : list of Piece
      Of the same ``global_shape``; the boxes do not overlap. A rank that holds
      nothing passes an empty list. A restore fills all arrays in place.

  Notes
  -----
  A plain list of pieces would be several arrays.

  Examples
  --------
  The gate and the up projection of an MLP are stacked in one array, and each is
  partitioned over the ranks:

  >>> half, rows = 4096, 4096 // comm.size
  >>> belay.Pieces([
  ...     belay.Piece(gate, (2 * half, 1024), (comm.rank * rows, 0)),
  ...     belay.Piece(up, (2 * half, 1024), (half + comm.rank * rows, 0))])
  """

  pieces: Any


@dataclasses.dataclass(eq=False)
class LaidOut:
  """The piece of this rank of an array with a layout.

  Parameters
  ----------
  array : numpy.ndarray
      Has the shape of ``layout.local_box(global_shape, comm.rank)``.
  layout : Layout
      On a mesh of as many ranks as the communicator has.
  global_shape : sequence of int
  """

  array: Any
  layout: Any
  global_shape: Any


@dataclasses.dataclass(eq=False)
class FlatRange:
  """The range of a flat buffer that this rank holds, as in ZeRO-1 and FSDP.

  Arrays, or boxes of them, are concatenated in a buffer, which is split into
  ranges at any positions. Each is stored as a separate array, under the key of
  this value and its name, and can be restored in any other partition.

  Parameters
  ----------
  array : numpy.ndarray
      The elements of the range, along one axis, dense. A restore fills it.
  pieces : dict
      The shapes of the arrays by name, in order; for boxes, (global_shape,
      offset, shape). Equal on all ranks that share the buffer.
  begin : int
      Where the range begins in the buffer. Elements after the last piece are
      padding.
  replica : int, optional
      Ranks that hold the same range have different numbers here.

  Examples
  --------
  >>> belay.FlatRange(part, {"w": (300, 40), "b": (40,)}, len(part) * comm.rank)
  """

  array: Any
  pieces: Any
  begin: int
  replica: int = 0


@dataclasses.dataclass(eq=False)
class Rows:
  """Rows of an array, of which each rank has any number, such as particles.

  Parameters
  ----------
  array : numpy.ndarray
      The rows of this rank along its first axis. May have a structured dtype.
  other_ranks : {"even", "first", "error"}, optional
      What each rank gets on another number of ranks: an even part, the rows of
      rank 0, or an error. On the same number each rank gets its own rows.

  Notes
  -----
  A restore fills the passed array if this rank gets the number of rows that it
  has. Otherwise the result has a new array, and a warning says so unless the
  passed array is empty. The passed array determines the dtype and the shape of
  a row.
  """

  array: Any
  other_ranks: str = "even"


@dataclasses.dataclass(eq=False)
class RowsById:
  """Rows with global numbers, such as the cells of an unstructured mesh.

  Parameters
  ----------
  ids : array of int
      ``array[i]`` is row ``ids[i]`` of the whole array. In a save the ids of
      all ranks are 0, 1, ..., each once. A restore returns the rows of any ids,
      and fills the array.
  array : numpy.ndarray
  count : int, optional
      The number of rows of all ranks, if the program knows it: a different
      number is an error.
  """

  ids: Any
  array: Any
  count: int = -1


@dataclasses.dataclass(eq=False)
class PerRank:
  """A value that is separate on each rank, such as a random state.

  Parameters
  ----------
  value : object
      A number, a str, bytes or an array, or nested dicts, lists and tuples of
      these. The length of arrays, str and bytes may differ between ranks. A
      restore fills arrays of the stored length.
  other_ranks : {"error", "first", "even"}, optional
      What each rank gets on another number of ranks. "even" is for arrays.
  """

  value: Any
  other_ranks: str = "error"


@dataclasses.dataclass(eq=False)
class FromRank0:
  """A value that every rank holds, but that may differ between ranks.

  For example, a time step that each rank has computed with a different rounding
  error. A save stores the value of rank 0 and compares nothing; a restore gives
  it to all ranks.

  Parameters
  ----------
  value : object
      A number, a str, bytes or an array, or nested dicts, lists and tuples of
      these.
  """

  value: Any


@dataclasses.dataclass(eq=False)
class IfStored:
  """A dict in a state; a restore returns only the values that are stored.

  For `belay.torch`: nested dicts of values that a step may lack.
  """

  value: dict


@dataclasses.dataclass
class RestoreResult:
  """What a restore has read; equal on all ranks except for the state.

  Attributes
  ----------
  state : object
      The structure that was passed, with the same arrays, which are filled,
      and with the single values that were read.
  step : int
  path : str
      The directory of the step.
  num_arrays : int
  conversions, mismatched : list of dict
      Arrays that are stored with another dtype or shape.
  missing, unexpected : list of str
      Keys that are not stored, and stored keys that no rank requested, if the
      options request these lists.
  warnings : list of str
  counters : dict
  """

  state: Any = dataclasses.field(repr=False)
  step: int
  path: str
  num_arrays: int = 0
  conversions: list = dataclasses.field(default_factory=list)
  missing: list = dataclasses.field(default_factory=list)
  unexpected: list = dataclasses.field(default_factory=list)
  mismatched: list = dataclasses.field(default_factory=list)
  warnings: list = dataclasses.field(default_factory=list)
  counters: dict = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass
class ManagedSave:
  """What `CheckpointManager.save` has done; equal on all ranks.

  Attributes
  ----------
  outcome : {"skipped", "saved", "begun", "failed"}
      "begun": the values are copied, and are written in the background.
      "failed": a due save has failed, and the failure is tolerated.
  reason : str
      Why it was not saved.
  result : SaveResult or None
  deleted : list of int
      Steps that no rule keeps.
  notes : list of str
      Failures after the commit.
  failure : Error or None
      A tolerated failure of this save or of the previous background save.
  finished : SaveResult or None
      The result of a save in the background that has ended since the previous
      call.
  """

  outcome: str
  reason: str
  result: Any
  deleted: list
  notes: list
  failure: Any
  finished: Any


@dataclasses.dataclass
class ManagedRestore:
  """What `CheckpointManager.restore` has done; equal on all ranks.

  Attributes
  ----------
  step : int or None
      None if there is no step.
  state : object
      As in `RestoreResult`; unchanged if there is no step.
  result : RestoreResult or None
  skipped : list of (int, Error)
      Newer steps that cannot be restored.
  set_aside, deleted : list of int
      Newer steps that were set aside or deleted.
  """

  step: Any
  state: Any = dataclasses.field(repr=False)
  result: Any
  skipped: list
  set_aside: list
  deleted: list
