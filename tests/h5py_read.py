"""Reads a step as any HDF5 user does: whole arrays, by key, from index.h5.

usage: h5py_read.py STEP_DIRECTORY SEED LIST

Each line of LIST has a key, its object path, its dtype and its shape ("-" for
a scalar, the length for a string), separated by tabs. The values are those of
mpi_tests/values.h. Prints what differs; exits with 1 if anything does, and
with 77 if there is no h5py.
"""

import os
import sys

try:
    import h5py
    import numpy as np
except ImportError:
    sys.exit(77)

MASK = 2**64 - 1

NUMPY = {
    "f16": "<f2", "f32": "<f4", "f64": "<f8", "f8e4m3": "u1", "f8e5m2": "u1",
    "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "u1",
    "u16": "<u2", "u32": "<u4", "u64": "<u8", "bool": "?", "c64": "<c8",
    "c128": "<c16",
}


def pattern(key, seed, num_bytes):
    total = seed * 1000003
    for byte in key.encode():
        total = (total * 31 + byte) & MASK
    index = np.arange(num_bytes, dtype=np.uint64) + np.uint64(
        total % 1000000007)
    return ((index * np.uint64(2654435761)) >> np.uint64(13)).astype(np.uint8)


def expected(key, dtype, shape, seed):
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == "bf16":  # the upper half of a binary32, which h5py shows
        bits = pattern(key, seed, 2 * count).view("<u2").astype("<u4") << 16
        return bits.view("<f4").reshape(shape)
    if dtype == "bool":
        return (pattern(key, seed, count) & 1).astype(bool).reshape(shape)
    numpy_type = np.dtype(NUMPY[dtype])
    data = pattern(key, seed, numpy_type.itemsize * count)
    return data.view(numpy_type).reshape(shape)


def same(found, need, dtype):
    if found.shape != need.shape or found.dtype.kind != need.dtype.kind:
        return False
    if dtype == "bf16":  # converted, so that a NaN may have changed its bits
        return np.array_equal(found, need, equal_nan=True)
    return found.astype(need.dtype).tobytes() == need.tobytes()


def check(index, key, path, dtype, shape, seed):
    if path not in index:
        return "is not there"
    dataset = index[path]
    if dtype == "string":
        # h5py drops NULs from the end of a fixed-length text.
        need = pattern(key, seed, int(shape)).tobytes().rstrip(b"\0")
        if int(shape) == 0:
            return None if dataset.shape is None or dataset.size <= 1 else "?"
        return None if bytes(dataset[()]) == need else "has another text"
    lengths = () if shape == "-" else tuple(int(n) for n in shape.split(","))
    if dataset.shape != lengths:
        return f"has shape {dataset.shape}, not {lengths}"
    if dtype.startswith("f8") and not list(dataset.attrs):
        return "does not say which float8 it is"
    found = np.asarray(dataset[()])
    if not same(found, expected(key, dtype, lengths, seed), dtype):
        return f"has other values ({found.dtype})"
    return None


def main():
    step, seed, listing = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(listing, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    os.chdir("/")  # links and virtual datasets must not depend on it
    failed = 0
    with h5py.File(os.path.join(step, "index.h5"), "r") as index:
        for key, path, dtype, shape in lines:
            problem = check(index, key, path, dtype, shape, seed)
            if problem:
                print(f"{key} ({dtype}) {problem}")
                failed = 1
    sys.exit(failed)


main()
