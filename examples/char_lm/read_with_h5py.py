"""Reads a char_lm checkpoint without belay: read_with_h5py.py INDEX STEP."""

import sys

import h5py


def arrays_of(group, path=""):
    """Yields (key, dataset) for all arrays; visititems would skip links."""
    for name in group:
        if name == ".belay":  # the index itself
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
            print(f"{key:40} {array.dtype!s:8} {array.shape}")
        table = f["model/embedding/.ATTRIBUTES/value"][:]
        row = ", ".join(f"{x:.3f}" for x in table[7, :6])
        print(f"\nf['model/embedding/.ATTRIBUTES/value'][7, :6] = [{row}]")
        found = f["train/.ATTRIBUTES/step"][()]
        print(f"f['train/.ATTRIBUTES/step'][()] = {found}")
        if found != step:
            sys.exit(f"read {path}: another step than {step}")
        if len(arrays) != 20:
            sys.exit(f"read {path}: {len(arrays)} arrays (need 20)")
        # Rows are random and never all zeros, but a hole in the file reads as
        # zeros.
        if not (table != 0).any(axis=1).all():
            sys.exit(f"read {path}: a row of zeros in model/embedding")


main()
