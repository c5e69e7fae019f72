"""Reads checkpoints without MPI."""

import collections.abc
import datetime

import numpy

from belay import _core
from belay._errors import Error


def _is_boolean(item):
  return isinstance(item, (bool, numpy.bool_)) or (
      getattr(item, "dtype", None) == numpy.bool_)


def _expand(index, ndim):
  """Returns the items of an index, one for each axis or new axis.

  Masks become arrays of indexes. Returns None for a mask without axes, which
  has no such form.
  """
  items = []
  for item in index if isinstance(index, tuple) else (index,):
    if isinstance(item, (list, tuple)):
      item = numpy.asarray(item)
      if item.size == 0:
        item = item.astype(numpy.intp)
    if _is_boolean(item):
      if numpy.ndim(item) == 0:
        return None
      items += numpy.asarray(item).nonzero()
    else:
      items.append(item)
  used = sum(item is not None and item is not Ellipsis for item in items)
  rest = [slice(None)] * (ndim - used)
  for place, item in enumerate(items):
    if item is Ellipsis:
      return items[:place] + rest + items[place + 1:]
  return items + rest


def _narrow(item, length):
  """Returns the part of an axis that an item needs, and the index in it.

  The part is (offset, length).
  """
  if isinstance(item, slice):
    taken = range(*item.indices(length))
    if not taken:
      return (0, 0), slice(0, 0)
    first, last = min(taken[0], taken[-1]), max(taken[0], taken[-1])
    count = last - first + 1
    if taken.step > 0:
      return (first, count), slice(0, count, taken.step)
    return (first, count), slice(count - 1, None, taken.step)
  numbers = numpy.asarray(item)
  if numbers.size == 0:
    return (0, 0), numbers
  numbers = numpy.where(numbers < 0, numbers + length, numbers)
  first, last = int(numbers.min()), int(numbers.max())
  inner = numbers - first
  return (first, last - first + 1), inner if numbers.ndim else int(inner)


class StoredArray:
  """An array of a checkpoint. Indexing, as in NumPy, reads the selected part.

  Attributes
  ----------
  key : str
  shape : tuple of int
  dtype : numpy.dtype
  nbytes : int
  storage : str
      How it is stored, such as "contiguous" or "3 pieces".
  layout : str
      Its layout on a mesh of ranks, if it was saved with one.

  Examples
  --------
  >>> belay.open("run")["model/w"][2:5, ::-1]
  """

  def __init__(self, reader, key, info):
    self._reader = reader
    self._fields = info["fields"]
    self._name = info["dtype"]
    self.key = key
    self.shape = info["shape"]
    self.nbytes = info["nbytes"]
    self.storage = info["storage"]
    self.layout = info["layout"]

  @property
  def dtype(self):
    return self._reader.dtype(self.key)

  @property
  def ndim(self):
    return len(self.shape)

  @property
  def size(self):
    return int(numpy.prod(self.shape, dtype=numpy.int64))

  def __len__(self):
    if not self.shape:
      raise TypeError("len() of an array without axes")
    return self.shape[0]

  def __getitem__(self, index):
    if isinstance(index, str) and self._fields:
      return self[...][index]
    # Raises the error of a wrong index, without allocating memory.
    sample = numpy.broadcast_to(numpy.empty((), numpy.bool_), self.shape)
    sample[index]
    items = _expand(index, self.ndim)
    if items is None:
      return self._read((0,) * self.ndim, self.shape)[index]
    offset, shape, inner = [], [], []
    for item in items:
      if item is None:
        inner.append(None)
        continue
      (first, count), rest = _narrow(item, self.shape[len(offset)])
      offset.append(first)
      shape.append(count)
      inner.append(rest)
    return self._read(tuple(offset), tuple(shape))[tuple(inner)]

  def _read(self, offset, shape):
    return self._reader.read(self.key, offset, shape)

  def __array__(self, dtype=None, copy=None):
    array = numpy.asarray(self[...])  # a number has no axes
    return array if dtype is None else array.astype(dtype, copy=False)

  def __repr__(self):
    return (f"<belay.StoredArray {self.key!r}: shape {self.shape}, "
            f"{self._fields or self._name}>")


class CheckpointReader(collections.abc.Mapping):
  """The contents of a committed step, by key; `belay.open` returns it.

  Needs neither MPI nor the program that saved the step. Opening a step reads
  only its index. No file stays open.

  Parameters
  ----------
  path : str or os.PathLike
      A step, or a directory of steps, whose newest step is used.

  Attributes
  ----------
  path : str
  step : int
  time : datetime.datetime
      When the save began, in UTC.
  nbytes : int

  Examples
  --------
  >>> reader = belay.open("run")
  >>> list(reader)
  ['model/w', 'name']
  >>> reader["model/w"][2:5]
  >>> reader["name"]
  'run 7'
  """

  def __init__(self, path):
    self._reader = _core.Reader(path)

  @property
  def path(self):
    return self._reader.path

  @property
  def step(self):
    return self._reader.step

  @property
  def time(self):
    return datetime.datetime.fromtimestamp(self._reader.time,
                                           datetime.timezone.utc)

  @property
  def nbytes(self):
    return self._reader.nbytes

  def __getitem__(self, key):
    """Return a `StoredArray`, or the stored str.

    Raises
    ------
    KeyError
        If there is no such key; names similar ones.
    """
    try:
      info = self._reader.find(key)
    except Error as error:
      if error.code != "NOT_FOUND":
        raise
      raise KeyError(str(error)) from None
    if info["is_text"]:
      return self._reader.read_text(key)
    return StoredArray(self._reader, key, info)

  def __contains__(self, key):
    return isinstance(key, str) and self._reader.has(key)

  def __iter__(self):
    return iter(self._reader.keys())

  def __len__(self):
    return len(self._reader.keys())

  def read_all(self):
    """Read all values, as nested dicts of new arrays."""
    return self._reader.read_all()

  def metadata(self):
    """Return the metadata that the program stored with the values, by name."""
    return _core.read_metadata(self.path)

  def __repr__(self):
    return f"<belay.CheckpointReader of {self.path}, {len(self)} arrays>"


def open(path):  # pylint: disable=redefined-builtin
  """Open a committed step for reading, without MPI.

  Parameters
  ----------
  path : str or os.PathLike
      A step, or a directory of steps, whose newest step is used.

  Returns
  -------
  CheckpointReader

  Raises
  ------
  Error
      With code "NOT_FOUND", "DATA_LOSS" or "UNIMPLEMENTED".
  """
  return CheckpointReader(path)
