"""Compares how array_text_numpy prints random arrays with how NumPy does."""

import subprocess
import sys

import numpy

DTYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8",
          "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
          "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool",
          "c64": "complex64", "c128": "complex128"}
CASES = 600


def random_reals(random, count):
  kind = random.integers(5)
  if kind == 0:  # any size
    values = random.normal(size=count) * 10.0 ** random.integers(-12, 13)
  elif kind == 1:  # any sizes
    values = random.normal(size=count) * 10.0 ** random.integers(-40, 39, count)
  elif kind == 2:  # whole numbers
    values = random.integers(-999, 999, count).astype(float)
  elif kind == 3:  # few digits
    values = numpy.round(random.normal(size=count), random.integers(1, 9))
  else:
    values = random.normal(size=count)
  for special in 0.0, -0.0, numpy.nan, numpy.inf, -numpy.inf:
    if count and random.integers(8) == 0:
      values[random.integers(count)] = special
  if random.integers(20) == 0:
    values[:] = random.choice([numpy.nan, numpy.inf, 0.0])
  return values


def is_borderline(array, most):
  """Whether it takes NumPy's rounding to tell which form is chosen: it divides
  the largest by the smallest number that is printed in the array's own type."""
  if array.size > most:
    for axis, length in enumerate(array.shape):
      if length > 6:
        array = array.take([0, 1, 2, -3, -2, -1], axis)
  for part in array.real, array.imag:
    sizes = numpy.abs(part[numpy.isfinite(part) & (part != 0)].astype(float))
    if sizes.size and 999 < sizes.max() / sizes.min() < 1001:
      return True
  return False


def random_array(random, dtype, shape):
  count = int(numpy.prod(shape, dtype=int))
  with numpy.errstate(over="ignore"):
    if dtype.kind == "c":
      values = numpy.empty(count, dtype)
      values.real = random_reals(random, count)
      values.imag = random_reals(random, count)
    elif dtype.kind == "f":
      values = random_reals(random, count).astype(dtype)
    elif dtype.kind == "b":
      values = random.integers(2, size=count).astype(dtype)
    else:
      values = numpy.frombuffer(random.bytes(count * dtype.itemsize), dtype)
      values = values >> dtype.type(random.integers(8 * dtype.itemsize))
  return values.reshape(shape)


def main(program):
  random = numpy.random.default_rng(7)
  cases, sent = [], b""
  for _ in range(CASES):
    name = random.choice(list(DTYPES))
    shape = random.integers(0 if random.integers(9) == 0 else 1, 13,
                            random.integers(0, 5))
    if random.integers(4) == 0 and len(shape) == 1:
      shape *= 20
    array = random_array(random, numpy.dtype(DTYPES[name]), shape)
    most = int(random.choice([0, 5, 40, 1000]))
    if array.dtype.kind in "fc" and is_borderline(array, most):
      array = numpy.zeros(shape, array.dtype)
    cases.append((name, most, array))
    lengths = " ".join(map(str, shape))
    sent += f"{name} {most} {len(shape)} {lengths}\n".encode()
    sent += array.tobytes()
  texts = subprocess.run([program], input=sent, check=True,
                         capture_output=True).stdout.decode().split("\0")[:-1]
  problems = []
  for (name, most, array), found in zip(cases, texts):
    need = numpy.array2string(array, threshold=most) if array.ndim else (
        str(array[()]))
    if need != found:
      problems.append(f"{name} {array.shape} {most}\n{need}\n{found}\n")
  print(f"{len(texts)} arrays, {len(problems)} problems")
  print("\n".join(problems[:10]))
  return 1 if problems or len(texts) != CASES else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1]))
