"""Compares the cases that indexing_numpy prints with what NumPy does."""

import collections
import json
import subprocess
import sys

import numpy

NEEDED = {"get": 4000, "set": 4000, "mask": 1000}


def iota(shape):
  return numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape)


def index_of(text):
  names = {"newaxis": numpy.newaxis, "s": numpy.s_}
  return eval(f"s[{text or '()'}]", names)


def result_of(array):
  return [str(list(array.shape)), str(array.flatten().tolist())]


def expect_get(shape, index):
  return result_of(numpy.asarray(iota(shape)[index_of(index)]))


def expect_set(shape, index, value_shape):
  array = iota(shape)
  array[index_of(index)] = -1 - iota(json.loads(value_shape))
  return [str(array.flatten().tolist())]


def expect_mask(shape, mask_shape, mask):
  mask = numpy.array(json.loads(mask), bool).reshape(json.loads(mask_shape))
  return result_of(iota(shape)[mask])


EXPECT = {"get": (expect_get, 1), "set": (expect_set, 2),
          "mask": (expect_mask, 2)}


def expected(kind, shape, arguments):
  """Returns NumPy's result as the program would print it."""
  try:
    return EXPECT[kind][0](json.loads(shape), *arguments)
  except (IndexError, ValueError) as error:
    return [type(error).__name__]


def main(program):
  lines = subprocess.run([program], check=True, capture_output=True,
                         text=True).stdout.splitlines()
  cases, errors, problems = collections.Counter(), 0, []
  for line in lines:
    kind, shape, *rest = line.split("\t")
    num_arguments = EXPECT[kind][1]
    want = expected(kind, shape, rest[:num_arguments])
    cases[kind] += 1
    errors += want[0].endswith("Error")
    if want != rest[num_arguments:]:
      problems.append(f"{line}\n  NumPy: {want}")
  print(f"{dict(cases)}, {errors} with an error, {len(problems)} problems")
  print("\n".join(problems[:20]))
  return 1 if problems or cases != NEEDED or errors < 100 else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1]))
