"""Prints datasets of an HDF5 file as JSON, read by h5py and nothing of ours.

Usage: h5_read.py FILE PATH...
Output: {PATH: {"dtype": ..., "shape": [...], "values": ..., "attrs": {...}}}
Texts are decoded as UTF-8 without NULs, complex numbers become [real, imag].
Without a PATH, prints the names of all groups and datasets.
"""
import json
import sys

import h5py
import numpy as np


def plain(value):
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, bytes):
        return value.decode()
    return value


def describe(dataset):
    if dataset.shape is None:
        values = None
    else:
        values = plain(np.asarray(dataset[()]).tolist())
    attrs = {k: plain(np.asarray(v).tolist()) for k, v in dataset.attrs.items()}
    shape = None if dataset.shape is None else list(dataset.shape)
    return {"dtype": str(dataset.dtype), "shape": shape, "values": values,
            "attrs": attrs, "chunks": dataset.chunks}


with h5py.File(sys.argv[1], "r") as f:
    if len(sys.argv) > 2:
        result = {path: describe(f[path]) for path in sys.argv[2:]}
    else:
        result = []
        f.visit(result.append)
    print(json.dumps(result))
