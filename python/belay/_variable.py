"""Arrays whose rows are distributed over many ranks."""

import dataclasses
import itertools
import reprlib
from typing import Any, Optional

import numpy

from belay import _core


def converted(value, dtype):
  """Returns a given array unchanged, other values as an array of `dtype`."""
  is_scalar = isinstance(value, numpy.generic)
  if not is_scalar and (hasattr(value, "dtype") or hasattr(value, "__array__")):
    return numpy.asarray(value)
  given = numpy.asarray(value)
  if given.dtype.kind in ("biufc" if dtype.kind == "c" else "biuf"):
    with numpy.errstate(all="ignore"):
      found = given.astype(dtype)
    if dtype.kind in "fc":  # rounds
      fits = numpy.array_equal(numpy.isfinite(found), numpy.isfinite(given))
    else:
      fits = found.size == 0 or numpy.array_equal(found, given)
    if fits:
      return found
  raise ValueError(f"value: does not fit {dtype} (found {reprlib.repr(value)})")


def components_of(components):
  """Returns arrays that share the memory of the components given to `join`."""
  if not isinstance(components, (list, tuple)):
    raise ValueError("components: need a list of arrays, found "
                     f"{type(components).__name__}")
  arrays = []
  for one in components:
    if isinstance(one, (list, tuple)):
      raise ValueError(f"component {len(arrays)}: need an array, found "
                       f"{type(one).__name__}")
    arrays.append(numpy.asarray(one))
  for one, other in itertools.combinations(arrays, 2):
    if numpy.may_share_memory(one, other):
      raise ValueError("components: two of them share memory")
  return arrays


@dataclasses.dataclass(frozen=True)
class FixedShards:
  """Splits into `num_shards` components, or fewer if there are fewer rows."""

  num_shards: int


@dataclasses.dataclass(frozen=True)
class MinSize:
  """Splits into the most components that have at least `min_shard_bytes`."""

  min_shard_bytes: int = 256 << 10
  max_shards: int = 1


@dataclasses.dataclass(frozen=True)
class MaxSize:
  """Splits into the fewest components that have at most `max_shard_bytes`."""

  max_shard_bytes: int
  max_shards: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Component:
  """Some rows of a variable, on one rank.

  Attributes
  ----------
  first_row, num_rows : int
  owner : int
      The rank that holds them.
  array : numpy.ndarray or None
      The elements, not a copy; None on other ranks.
  """

  first_row: int
  num_rows: int
  owner: int
  array: Any = dataclasses.field(repr=False)


class ShardedVariable:
  """An array of components, stacked on axis 0, which may be on any ranks.

  Creating it is collective, and so is each method unless it says Local: all
  ranks call it, with equal arguments where the method does not say otherwise.
  All checks precede the first change, so the variable is unchanged after an
  error. It is initialized with zeros.

  A state may contain it; it is stored as one array under its key. A restore
  fills it in place from any saved components, on any number of ranks.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
      Must not be freed before the variable.
  name : str
      Used in errors.
  dtype : dtype
  shape : sequence of int
  partitioner : FixedShards, MinSize, MaxSize or callable
      The number of components along axis 0. A callable gets (shape, dtype,
      axis) and returns the number of parts of each axis.
  owners : list of int, optional
      The rank of each component. The default spreads them evenly.
  deadline_seconds : float, optional

  Examples
  --------
  >>> table = belay.ShardedVariable(comm, "table", "float32", (1000, 64),
  ...                               belay.FixedShards(comm.size))
  >>> table.scatter("sub", ids, gradient)
  >>> rows = table.lookup(ids)
  >>> belay.save(comm, "run", 7, {"table": table})
  """

  def __init__(self, comm, name, dtype, shape, partitioner, **options):
    self._variable = _core.Variable.create(comm, name, dtype, shape,
                                           partitioner, options)

  @classmethod
  def join(cls, comm, name, components, **options):
    """Make a variable from arrays that the ranks hold. Collective.

    Parameters
    ----------
    components : list of numpy.ndarray
        Any number of arrays of this rank. They are stacked by rank, then in
        list order. The variable uses them without a copy.

    Returns
    -------
    ShardedVariable
    """
    variable = cls.__new__(cls)
    variable._variable = _core.Variable.join(comm, name, components, options)
    return variable

  @property
  def name(self):
    return self._variable.name

  @property
  def dtype(self):
    return self._variable.dtype

  @property
  def shape(self):
    return self._variable.shape

  @property
  def components(self):
    """All components, by first row, as a list of `Component`. Local."""
    return [Component(*one) for one in self._variable.components()]

  @property
  def bytes_sent(self):
    """The bytes that this rank has sent to others so far. Local."""
    return self._variable.bytes_sent

  def read(self, index=..., to=None, **options):
    """Return ``variable[index]``. Collective.

    Parameters
    ----------
    index : int, slice, ..., None, or a tuple of these, or one mask
    to : int, optional
        The rank that gets the result; the others get None. The default is all.

    Returns
    -------
    numpy.ndarray or None
    """
    return self._variable.read(index, to, options)

  def __getitem__(self, index):
    return self._variable.read(index, None, {})

  __iter__ = None  # reading is collective: `for row in variable.read()`

  def __array__(self, *args, **options):
    raise TypeError("a belay.ShardedVariable is not an array; call its read()")

  def assign(self, value, op="update", **options):
    """Update all elements. Collective.

    Parameters
    ----------
    value : numpy.ndarray
        Of the dtype and the shape of the variable, equal on all ranks.
    op : {"update", "add", "sub", "mul", "div", "min", "max"}, optional
    """
    self._variable.assign(op, value, options)

  def assign_pieces(self, pieces, op="update", **options):
    """Update all elements with pieces of different ranks. Collective.

    Parameters
    ----------
    pieces : list of (offset, array)
        Boxes of this rank. Those of all ranks tile the variable.
    op : str, optional
        As for `assign`.
    """
    self._variable.assign_pieces(op, pieces, options)

  def assign_slice(self, index, value, **options):
    """Assign ``variable[index] = value``, as NumPy broadcasts. Collective."""
    self._variable.assign_slice(index, value, options)

  def __setitem__(self, index, value):
    self._variable.assign_slice(index, value, {})

  def scatter(self, op, indices, rows, **options):
    """Update rows, in the order of ranks and then of indices. Collective.

    Parameters
    ----------
    op : str
        As for `assign`.
    indices : array of int
        Any number of indices of this rank; they may repeat.
    rows : numpy.ndarray
        A row for each index.
    """
    self._variable.scatter(op, indices, rows, options)

  def lookup(self, ids, **options):
    """Return the rows of this rank's ids. Collective.

    Parameters
    ----------
    ids : array of int
        Of any shape.
    strategy : {"div", "mod"}, optional
        "mod": of n components, row id // n of component id % n.
    max_norm : float, optional
        Scale rows with a larger L2 norm to this norm.

    Returns
    -------
    numpy.ndarray
        Of shape ``ids.shape + variable.shape[1:]``.
    """
    return self._variable.lookup(ids, options)

  def lookup_lists(self, row_splits, ids, weights=None, **options):
    """Combine rows, one result for each of this rank's lists. Collective.

    Parameters
    ----------
    row_splits : array of int
        List i has ``ids[row_splits[i]:row_splits[i + 1]]``.
    ids : array of int
    weights : array of float, optional
    combiner : {"mean", "sum", "sqrtn"}, optional
    safe : bool, optional
        Drop ids below 0 and weights not above 0.
    default_id : int, optional
        With `safe`, the row of empty lists; the default is zeros.
    strategy, max_norm : optional
        As for `lookup`.

    Returns
    -------
    numpy.ndarray
    """
    return self._variable.lookup_lists(row_splits, ids, weights, options)

  def __repr__(self):
    return (f"<belay.ShardedVariable {self.name!r}: shape {self.shape}, "
            f"{self.dtype}>")
