"""Reads the particles of mpi_tests/restore/structs_test.cc with h5py.

usage: h5py_structs.py INDEX_FILE NUMBER_OF_PARTICLES

Exits with 1 if anything differs, and with 77 if there is no h5py.
"""

import sys

try:
    import h5py
    import numpy as np
except ImportError:
    sys.exit(77)

TYPE = np.dtype([("id", "<i8"), ("position", "<f8", (3,)), ("alive", "?"),
                 ("velocity.x", "<f4"), ("velocity.y", "<f4"),
                 ("cell", "<i2", (2,))])


def main(path, count):
    ids = np.arange(count)
    expected = np.zeros(count, TYPE)
    expected["id"] = ids
    expected["position"] = ids[:, None] + 0.25 * np.arange(3)
    expected["alive"] = ids % 3 == 0
    expected["velocity.x"] = -ids
    expected["velocity.y"] = 0.5 * ids
    expected["cell"] = np.stack([ids, ids - 7], axis=1)
    with h5py.File(path) as file:
        found = file["particles"]
        if found.dtype != TYPE or found.shape != (count,):
            print("type", found.dtype, "shape", found.shape)
            return 1
        for name in TYPE.names:
            if not np.array_equal(found[name], expected[name]):
                print(name, "differs:", found[name])
                return 1
    return 0


sys.exit(main(sys.argv[1], int(sys.argv[2])))
