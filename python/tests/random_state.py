"""Random states, for tests: what is stored, and how each rank holds it.

The values of a case depend on its seed alone, so all ranks agree on them. How
they lie in memory may differ between ranks.
"""

import dataclasses
from typing import Any

import numpy

import belay

DTYPES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 "
          "float32 float64 complex64 complex128").split()


def random_array(random, shape, dtype=None):
  dtype = numpy.dtype(dtype or random.choice(DTYPES))
  size = int(numpy.prod(shape, dtype=int))
  if dtype == bool:
    return random.integers(0, 2, size).astype(bool).reshape(shape)
  data = random.integers(0, 256, size * dtype.itemsize, "u1")
  return data.view(dtype).reshape(shape)


def random_shape(random, most_axes=4, longest=7):
  return tuple(random.integers(0 if random.random() < 0.1 else 1, longest + 1,
                               random.integers(0, most_axes + 1)).tolist())


def random_tiling(random, shape, parts):
  """Returns `parts` boxes, (offset, shape), that tile the array."""
  boxes = [((0,) * len(shape), tuple(shape))]
  while len(boxes) < parts:
    offset, lengths = boxes.pop(random.integers(len(boxes)))
    axis = random.integers(len(shape))
    cut = int(random.integers(0, lengths[axis] + 1))
    low, high = list(lengths), list(lengths)
    low[axis], high[axis] = cut, lengths[axis] - cut
    moved = list(offset)
    moved[axis] += cut
    boxes += [(offset, tuple(low)), (tuple(moved), tuple(high))]
  random.shuffle(boxes)
  return boxes


def random_box(random, shape):
  """Returns any box of an array as (offset, shape)."""
  ends = [numpy.sort(random.integers(0, length + 1, 2)) for length in shape]
  return (tuple(int(begin) for begin, _ in ends),
          tuple(int(end - begin) for begin, end in ends))


def in_box(array, box):
  return array[tuple(slice(begin, begin + length)
                     for begin, length in zip(*box))]


def random_memory(random, values):
  """Returns an array with these values and any strides or byte order."""
  kind = random.integers(6)
  if kind == 0:
    return numpy.array(values, order="F")
  if kind == 1 and values.ndim > 0:
    order = random.permutation(values.ndim)
    return values.transpose(order).copy().transpose(numpy.argsort(order))
  if kind == 2 and values.ndim > 0:
    steps = random.integers(1, 4, values.ndim)
    steps *= random.choice([-1, 1], values.ndim, p=[0.1, 0.9])
    larger = numpy.zeros(values.shape * abs(steps), values.dtype)
    view = larger[tuple(slice(None, None, step) for step in steps)]
    view[...] = values
    return view
  if kind == 3 and random.random() < 0.3:
    return values.astype(values.dtype.newbyteorder())
  if kind == 4:
    packed = numpy.zeros(values.shape, [("c", "u1"), ("x", values.dtype)])
    packed["x"] = values
    return packed["x"]
  return values.copy()


@dataclasses.dataclass
class Value:
  """One value of a random state."""

  # replicated, piece, laid_out, flat, variable, rows, by_id, per_rank, scalar
  kind: str
  # The whole array; those of a flat buffer by name; the rows or the values of
  # all ranks; a scalar.
  stored: Any
  # Of the ranks that save: boxes, where ranges begin, or ids. Else a seed.
  cuts: Any = None

  @property
  def flat(self):
    """The elements of a flat buffer."""
    return numpy.concatenate([one.ravel() for one in self.stored.values()])


def _text(random):
  letters = list("abc/\u00e9\u4e2d\n\0 ")
  return "".join(random.choice(letters, random.integers(0, 12)).tolist())


def random_scalar(random):
  return [
      lambda: int(random.integers(-2**63, 2**63 - 1)),
      lambda: float(random.standard_normal()),
      lambda: bool(random.integers(2)),
      lambda: complex(*random.standard_normal(2)),
      lambda: _text(random),
      lambda: random.bytes(random.integers(0, 20)),
      lambda: random_array(random, (1,))[0],
      lambda: None,
  ][random.integers(8)]()


def layout_of(value, ranks):
  """Returns a layout on so many ranks, equal on all of them."""
  random = numpy.random.default_rng((value.cuts, ranks))
  first = random.choice([n for n in range(1, ranks + 1) if ranks % n == 0])
  mesh = belay.Mesh({"x": int(first), "y": int(ranks // first)})
  names = [["x"], ["y"], ["x", "y"], ["y", "x"], []][random.integers(5)]
  axes = [[] for _ in value.stored.shape]
  for name in names:
    axes[random.integers(len(axes))].append(name)
  return belay.Layout(mesh, [axis or None for axis in axes])


def _flat_value(random, ranks):
  dtype = random.choice(DTYPES)
  arrays = {f"{number} w": random_array(random, random_shape(random), dtype)
            for number in range(random.integers(1, 4))}
  value = Value("flat", arrays)
  value.cuts = numpy.sort(random.integers(0, len(value.flat) + 1, ranks + 1))
  value.cuts[[0, -1]] = 0, len(value.flat)
  return value


def random_value(random, ranks):
  kind = random.choice(["replicated", "piece", "piece", "laid_out", "flat",
                        "variable", "rows", "by_id", "per_rank", "scalar"])
  if kind == "flat":
    return _flat_value(random, ranks)
  if kind in ("laid_out", "variable"):
    array = random_array(random, random_shape(random) or (3,))
    return Value(kind, array, int(random.integers(2**31)))
  if kind == "by_id":
    array = random_array(random, (random.integers(0, 12), 2))
    ids = numpy.array_split(random.permutation(len(array)), ranks)
    return Value(kind, array, ids)
  if kind == "replicated":
    return Value(kind, random_array(random, random_shape(random)))
  if kind == "piece":
    shape = random_shape(random) or (3,)
    return Value(kind, random_array(random, shape),
                 random_tiling(random, shape, ranks))
  if kind == "rows":
    row = tuple(random.integers(1, 4, random.integers(0, 3)).tolist())
    dtype = random.choice(DTYPES)
    return Value(kind, [random_array(random, (count, *row), dtype)
                        for count in random.integers(0, 6, ranks)])
  if kind == "per_rank":
    make = [lambda: int(random.integers(100)), lambda: _text(random),
            lambda: random_array(random, (random.integers(4),), "i2")]
    one = make[random.integers(3)]
    return Value(kind, [one() for _ in range(ranks)])
  return Value(kind, random_scalar(random))


def random_tree(random, ranks, depth=0):
  """Returns nested dicts, lists and tuples of Values."""
  items = random.integers(1, 5)
  nested = [random_tree(random, ranks, depth + 1)
            if depth < 3 and random.random() < 0.3
            else random_value(random, ranks) for _ in range(items)]
  kind = random.integers(3)
  if kind == 0:
    return nested
  if kind == 1:
    return tuple(nested)
  names = random.permutation(["a", "b c", "d/e", "\u00fc", 3, "x.y"])[:items]
  return dict(zip(names.tolist(), nested))


def map_tree(tree, function):
  if isinstance(tree, dict):
    return {key: map_tree(value, function) for key, value in tree.items()}
  if isinstance(tree, (list, tuple)):
    return type(tree)(map_tree(value, function) for value in tree)
  return function(tree)


def _variable(value, comm):
  random = numpy.random.default_rng((value.cuts, comm.size))
  owners = None
  parts = min(int(random.integers(1, 6)), max(1, len(value.stored)))
  if not value.stored.size:
    parts = 1
  if random.random() < 0.5:
    owners = random.integers(0, comm.size, parts).tolist()
  return belay.ShardedVariable(comm, "v", value.stored.dtype,
                               value.stored.shape, belay.FixedShards(parts),
                               owners=owners)


def to_save(random, value, comm):
  """Returns what a rank saves of a Value. Collective."""
  rank = comm.rank
  if value.kind == "laid_out":
    layout = layout_of(value, comm.size)
    box = layout.local_box(value.stored.shape, rank)
    return belay.LaidOut(random_memory(random, in_box(value.stored, box)),
                         layout, value.stored.shape)
  if value.kind == "flat":
    begin, end = value.cuts[rank:rank + 2]
    return belay.FlatRange(value.flat[begin:end],
                           {name: one.shape
                            for name, one in value.stored.items()}, begin)
  if value.kind == "variable":
    variable = _variable(value, comm)
    variable.assign(value.stored)
    return variable
  if value.kind == "by_id":
    ids = value.cuts[rank]
    return belay.RowsById(ids, random_memory(random, value.stored[ids]))
  if value.kind == "replicated":
    return random_memory(random, value.stored)
  if value.kind == "piece":
    box = value.cuts[rank]
    return belay.Piece(random_memory(random, in_box(value.stored, box)),
                       value.stored.shape, box[0])
  if value.kind == "rows":
    return belay.Rows(random_memory(random, value.stored[rank]))
  if value.kind == "per_rank":
    return belay.PerRank(value.stored[rank])
  return value.stored


def to_restore(random, value, comm):
  """Returns what a rank passes to a restore of a Value. Collective."""
  if value.kind == "laid_out":
    layout = layout_of(value, comm.size)
    _, shape = layout.local_box(value.stored.shape, comm.rank)
    blank = numpy.zeros(shape, value.stored.dtype)
    return belay.LaidOut(random_memory(random, blank), layout,
                         value.stored.shape)
  if value.kind == "flat":
    begin, end = numpy.sort(random.integers(0, len(value.flat) + 1, 2)).tolist()
    return belay.FlatRange(numpy.zeros_like(value.flat[begin:end]),
                           {name: one.shape
                            for name, one in value.stored.items()}, begin)
  if value.kind == "variable":
    return _variable(value, comm)
  if value.kind == "by_id":
    # That no rank has any id is an error: a program has forgotten them.
    count = random.integers(0 if comm.rank else 1, 9) if len(value.stored) else 0
    ids = random.integers(0, max(1, len(value.stored)), count)
    return belay.RowsById(ids, value.stored[:0].copy())
  if value.kind == "replicated":
    return random_memory(random, numpy.zeros_like(value.stored))
  if value.kind == "piece":
    box = random_box(random, value.stored.shape)
    blank = numpy.zeros(box[1], value.stored.dtype)
    return belay.Piece(random_memory(random, blank), value.stored.shape, box[0])
  if value.kind == "rows":
    return belay.Rows(value.stored[0][:random.integers(0, 3)].copy())
  if value.kind == "per_rank":
    return belay.PerRank(type(value.stored[0])() if not isinstance(
        value.stored[0], numpy.ndarray) else value.stored[0][:0].copy(),
                         "first")
  return None if value.stored is None else type(value.stored)()
