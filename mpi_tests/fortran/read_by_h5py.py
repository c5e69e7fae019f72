"""h5py finds what Fortran has saved, with the axes in reverse order.

argv: the directory of fortran_test.
"""

import sys

import h5py
import numpy as np

LENGTH = 7  # of the axis that is cut, the last one in Fortran
SHAPES = {"u1": (), "u2": (3,), "u3": (2, 3), "u4": (1, 2, 3),
          "u5": (2, 1, 2, 3), "u6": (2, 2, 1, 2, 3), "u7": (2, 1, 2, 1, 2, 3)}
KINDS = [("r8", 0, np.float64), ("r4", 0, np.float32), ("i8", 2**33, np.int64),
         ("i4", 0, np.int32)]
TYPES = {"i1": ([1, 2, -3], np.int8), "i2": ([300, 2, -3], np.int16),
         "i4": ([70000, 2, -3], np.int32), "i8": ([2**40, 2, -3], np.int64),
         "r4": ([0.5, 1e30, -3], np.float32), "r8": ([0.1, 1e300, -3], np.float64),
         "l4": ([1, 0, 1], np.int32), "l8": ([1, 1], np.int64),
         "n": (1, np.int32), "step": (10, np.int64), "time": (0.25, np.float64),
         "is_on": (1, np.int32)}


def check(what, found, needed):
  """Ends the program unless both arrays are the same, type and shape too."""
  needed = np.asarray(needed)
  if found.dtype != needed.dtype or found.shape != needed.shape or (
      found != needed).any():
    sys.exit(f"{what}: need {needed!r}, found {found!r}")


def main():
  root = sys.argv[1]
  with h5py.File(f"{root}/ranks/step_00000001/index.h5") as file:
    for key, inner in SHAPES.items():
      shape = (*inner, LENGTH)
      needed = np.arange(np.prod(shape), dtype=np.float64)
      check(key, file[key][()], needed.reshape(shape[::-1]))
  for axes in range(1, 8):
    shape = (2, 3, 2, 1, 2, 3, LENGTH)[-axes:]
    with h5py.File(f"{root}/kinds/step_{axes:08}/index.h5") as file:
      for key, first, dtype in KINDS:
        needed = (first + np.arange(np.prod(shape))).astype(dtype)
        check(f"{key} of {axes} axes", file[key][()],
              needed.reshape(shape[::-1]))
  with h5py.File(f"{root}/sections/step_00000001/index.h5") as file:
    row, column = np.indices((5, LENGTH)) + 1
    check("plate", file["plate"][()], (100 * row + column).astype(np.float32).T)
    check("few", file["few"][()], np.array([1, 2, 3, 4, 5], np.int32))
  with h5py.File(f"{root}/types/step_00000001/index.h5") as file:
    for key, (values, dtype) in TYPES.items():
      check(key, np.asarray(file[key][()]), np.array(values, dtype))
    check("l1", file["l1"][()].astype(np.uint8), np.array([0, 1, 1], np.uint8))
    pairs = file["c8"][()]
    check("c8", pairs.astype(np.complex128), np.full(2, 0.1 + 7j))
  with h5py.File(f"{root}/strings/step_00000001/index.h5") as file:
    name = file["name"][()]
    if name not in (b"two words", "two words"):
      sys.exit(f"name: found {name!r}")
    names = file["names"][()]
    if names.shape != (2, 12) or bytes(names[1]).rstrip() != b"south":
      sys.exit(f"names: found {names!r}")
  with h5py.File(f"{root}/cells/step_00000001/index.h5") as file:
    cells = file["cells"][()]
    ids = np.arange(1, len(cells) + 1)
    check("cells", cells["t"], 0.5 * ids)
    check("components", cells["v"], np.outer(ids, [1, 2]).astype(np.float32))
    check("inner components", cells["at.y"], ids.astype(np.float64))
  with h5py.File(f"{root}/layouts/step_00000001/index.h5") as file:
    row, column = np.indices((5, 8)) + 1
    check("u of a layout", file["u"][()], (100.0 * row + column).T)
  print("as documented")


if __name__ == "__main__":
  main()
