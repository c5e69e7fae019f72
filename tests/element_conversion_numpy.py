"""Compares conversions of elements with NumPy's casts.

usage: element_conversion_numpy.py PROGRAM

Where NumPy has no answer (numbers that an integer type cannot hold) nothing is
compared: the unit test says what belay does there.
"""

import subprocess
import sys

import numpy as np

NUMPY = {
    "f16": "<f2", "f32": "<f4", "f64": "<f8", "i8": "i1", "i16": "<i2",
    "i32": "<i4", "i64": "<i8", "u8": "u1", "u16": "<u2", "u32": "<u4",
    "u64": "<u8", "bool": "?", "c64": "<c8", "c128": "<c16",
}
COUNT = 20000


def elements(rng, name):
    dtype = np.dtype(NUMPY[name])
    if name == "f16":
        return np.arange(65536, dtype="<u2").view(dtype)
    if name == "bool":
        return rng.integers(0, 2, COUNT).astype(dtype)
    if dtype.kind == "c":
        part = "f32" if name == "c64" else "f64"
        return (elements(rng, part) + 1j * elements(rng, part)).astype(dtype)
    any_bits = rng.integers(0, 256, COUNT * dtype.itemsize, dtype=np.uint8)
    values = any_bits.view(dtype)
    if dtype.kind != "f":
        return values
    near = rng.normal(0, 1, COUNT) * 2.0**rng.integers(-30, 40, COUNT)
    return np.concatenate([values, near.astype(dtype)])


def defined(values, target):
    """Returns those values that the target type can hold a cut of."""
    if target.kind not in "iu" or values.dtype.kind == "b":
        return values
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    info = np.iinfo(target)
    keep = [info.min <= int(value) <= info.max for value in values]
    return values[np.array(keep, dtype=bool)]


def differs(found, need):
    """Returns the places that differ; a NaN equals any other."""
    if need.dtype.kind in "fc":
        # A zero has a sign.
        parts = {"<c8": "<f4", "<c16": "<f8"}.get(need.dtype.str)
        if parts:
            found, need = found.view(parts), need.view(parts)
        same = (found == need) & (np.signbit(found) == np.signbit(need))
        return np.flatnonzero(~(same | (np.isnan(found) & np.isnan(need))))
    return np.flatnonzero(found != need)


def main():
    rng = np.random.default_rng(3)
    failed = pairs = 0
    for source, source_type in NUMPY.items():
        for target, target_type in NUMPY.items():
            if source.startswith("c") and not target.startswith("c"):
                continue
            with np.errstate(all="ignore"):
                values = defined(elements(rng, source), np.dtype(target_type))
                need = values.astype(target_type)
            out = subprocess.run([sys.argv[1], source, target], check=True,
                                 input=values.tobytes(), capture_output=True)
            found = np.frombuffer(out.stdout, target_type)
            places = differs(found, need)
            pairs += 1
            if found.shape != need.shape or len(places):
                print(f"{source} to {target}: {len(places)} differ")
                failed = 1
    print(f"{pairs} pairs")
    sys.exit(failed)


main()
