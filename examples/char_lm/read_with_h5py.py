"""Reads a char_lm checkpoint without belay: read_with_h5py.py INDEX STEP."""

import sys

import h5py


def main():
    path, step = sys.argv[1], int(sys.argv[2])
    with h5py.File(path) as f:
        arrays = []
        f.visititems(lambda name, node: arrays.append((name, node))
                     if isinstance(node, h5py.Dataset)
                     and name.split("/")[0] in ("model", "adam", "train")
                     else None)
        for name, node in arrays:
            print(f"{name:32} {node.dtype!s:8} {node.shape}")
        table = f["model/embedding"][:]
        row = ", ".join(f"{x:.3f}" for x in table[7, :6])
        print(f"\nf['model/embedding'][7, :6] = [{row}]")
        print(f"f['train/step'][()] = {f['train/step'][()]}")
        if f["train/step"][()] != step:
            sys.exit(f"read {path}: another step than {step}")
        if len(arrays) != 19:
            sys.exit(f"read {path}: {len(arrays)} arrays (need 19)")
        # Every row has been trained or at least drawn at random: a hole in
        # the file would read as zeros.
        if not (table != 0).any(axis=1).all():
            sys.exit(f"read {path}: a row of zeros in model/embedding")


main()
