"""Reads a checkpoint and draws it, without MPI and without the program.

  python3 look.py run                          # a line for each array
  python3 look.py run model/weights            # a map of one array
  python3 look.py run model/weights --png w.png  # the same with matplotlib

Arrays are read in parts, so that they need not fit into memory.
"""

import argparse
import sys

import numpy

import belay

SHADES = " .:-=+*#%@"
BARS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
PART_BYTES = 64 << 20
BINS = 16


def parts(array):
  """Yields (first row, values) of the array, some rows at a time."""
  if array.ndim == 0:
    yield 0, numpy.asarray(array).reshape(1, 1)
    return
  row_bytes = max(1, array.nbytes // max(1, len(array)))
  rows = max(1, PART_BYTES // row_bytes)
  for begin in range(0, len(array), rows):
    part = array[begin:begin + rows]
    yield begin, part.reshape(len(part), -1)


def numbers(values):
  """Returns finite values to draw, magnitudes of complex ones."""
  if numpy.iscomplexobj(values):
    values = abs(values)
  values = values.astype("float64").ravel()
  return values[numpy.isfinite(values)]


class Statistics:
  """Statistics of an array, for one line."""

  def __init__(self, array):
    self.count, total = 0, 0.0
    self.least, self.most = numpy.inf, -numpy.inf
    for _, part in parts(array):
      values = numbers(part)
      if values.size:
        self.count += values.size
        total += values.sum()
        self.least = min(self.least, values.min())
        self.most = max(self.most, values.max())
    self.mean = total / self.count if self.count else 0.0
    self.histogram = numpy.zeros(BINS, "int64")
    if self.count:
      # The difference of huge numbers would overflow.
      factor = 1.0 if max(-self.least, self.most) < 1e300 else 0.25
      ends = (self.least * factor, self.most * factor)
      squares = 0.0
      for _, part in parts(array):
        values = numbers(part)
        self.histogram += numpy.histogram(values * factor, BINS, ends)[0]
        squares += ((values - self.mean)**2).sum()
      self.deviation = (squares / self.count)**0.5

  def text(self):
    if not self.count:
      return "no finite number"
    most = self.histogram.max()
    bars = "".join(BARS[-(-(len(BARS) - 1) * int(count) // int(most))]
                   for count in self.histogram)
    return (f"{self.least:10.3g} |{bars}| {self.most:<10.3g} "
            f"mean {self.mean:.3g}, deviation {self.deviation:.3g}")


def table(reader):
  """Prints a line for each value."""
  print(f"{reader.path}: step {reader.step}, {len(reader)} arrays, "
        f"{reader.nbytes} bytes")
  width = max((len(key) for key in reader), default=0)
  for key in reader:
    value = reader[key]
    if isinstance(value, (str, bytes)):
      print(f"{key:{width}}  {value!r:.60}")
    elif value.dtype.names:
      print(f"{key:{width}}  {list(value.shape)} structs of "
            f"{', '.join(value.dtype.names)}")
    else:
      shape = f"{value.dtype} {list(value.shape)}"
      print(f"{key:{width}}  {shape:24} {Statistics(value).text()}")


def shrunk(array, rows, columns):
  """Returns means of blocks of the array: at most rows x columns of them."""
  height = max(1, len(array) if array.ndim else 1)
  wide = max(1, array.size // height)
  rows, columns = min(rows, height), min(columns, wide)
  sums, counts = numpy.zeros((rows, columns)), numpy.zeros((rows, columns))
  column_of = numpy.arange(wide) * columns // wide
  begins = numpy.searchsorted(column_of, numpy.arange(columns))
  for begin, part in parts(array):
    values = abs(part) if numpy.iscomplexobj(part) else part.astype("float64")
    finite = numpy.isfinite(values)
    row_of = (begin + numpy.arange(len(part))) * rows // height
    for place, one in ((sums, numpy.where(finite, values, 0)),
                       (counts, finite.astype("float64"))):
      numpy.add.at(place, row_of, numpy.add.reduceat(one, begins, axis=1))
  return sums / numpy.maximum(counts, 1)


def draw(key, array, png):
  """Draws one array."""
  title = f"{key}: {array.dtype} {list(array.shape)}"
  if not array.size or array.dtype.names:
    sys.exit(f"{title}: nothing to draw")
  if png:
    try:
      import matplotlib
    except ImportError:
      print("no matplotlib (Debian: python3-matplotlib), so in text:")
    else:
      matplotlib.use("Agg")
      from matplotlib import pyplot
      pyplot.imshow(shrunk(array, 512, 512), aspect="auto")
      pyplot.title(title)
      pyplot.colorbar()
      pyplot.savefig(png)
      print(f"{png}: {title}")
      return
  values = numpy.nan_to_num(shrunk(array, 24, 72)) / 2
  least, most = values.min(), values.max()
  scale = (len(SHADES) - 1) / (most - least) if most > least else 0
  print(f"{title}, from '{SHADES[0]}' {2 * least:.3g} to "
        f"'{SHADES[-1]}' {2 * most:.3g}")
  for row in values:
    print("|" + "".join(SHADES[int((value - least) * scale)]
                        for value in row) + "|")


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("path", help="a step, or a directory of steps")
  parser.add_argument("key", nargs="?", help="draws this array")
  parser.add_argument("--png", help="draws into this file, with matplotlib")
  flags = parser.parse_args()
  reader = belay.open(flags.path)
  if flags.key is None:
    table(reader)
    return
  if flags.key not in reader:
    sys.exit(f"{reader.path} has no {flags.key}; it has {', '.join(reader)}")
  value = reader[flags.key]
  if isinstance(value, (str, bytes)):
    print(f"{flags.key}: {value!r}")
  else:
    draw(flags.key, value, flags.png)


if __name__ == "__main__":
  main()
