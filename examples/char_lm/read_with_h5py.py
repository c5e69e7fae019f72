"""Reads a char_lm checkpoint without belay: read_with_h5py.py INDEX STEP."""

import sys

import h5py


def arrays_of(group, path=""):
    """Yields (key, dataset) for all arrays; visititems would skip links."""
    for name in group:
        if name.startswith("."):  # the index itself
            continue
        node = group[name]
        if isinstance(node, h5py.Group):
            yield from arrays_of(node, f"{path}{name}/")
        else:
            yield path + name, node


def main():
    path, step = sys.argv[1], int(sys.argv[2])
    with h5py.File(path) as f:
        arrays = list(arrays_of(f))
        for key, array in arrays:
            print(f"{key:26} {array.dtype!s:8} {array.shape}")
        table = f["model/embedding"][:]
        row = ", ".join(f"{x:.3f}" for x in table[7, :6])
        print(f"\nf['model/embedding'][7, :6] = [{row}]")
        print(f"f['train/step'][()] = {f['train/step'][()]}")
        if f["train/step"][()] != step:
            sys.exit(f"read {path}: another step than {step}")
        if len(arrays) != 19:
            sys.exit(f"read {path}: {len(arrays)} arrays (need 19)")
        # No row was drawn as zeros, but a hole in the file reads as zeros.
        if not (table != 0).any(axis=1).all():
            sys.exit(f"read {path}: a row of zeros in model/embedding")


main()
