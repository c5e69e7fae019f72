"""Safetensors files by json, struct and NumPy alone: what the tests compare
belay with.

usage: safetensors_format.py check PATH SEED LIST [NAME=TEXT]...
       safetensors_format.py write DIRECTORY SEED LIST

Each line of LIST has the name, the dtype and the shape ("-" for a scalar) of a
tensor, separated by tabs. The values are those of mpi_tests/values.h.
`check` reads a file, or an index with its files, and compares everything in
it; prints what differs, and exits with 1 if anything does.
`write` makes plain.safetensors, odd.safetensors, whose tensors lie in no order
and at odd places, and indexed/, three files with an index.
"""

import json
import os
import struct
import sys

import numpy as np

MASK = 2**64 - 1
# By belay's name: that of the format, and the type that NumPy has for it. In the
# order in which the reference implementation puts tensors into a file.
DTYPES = {
    "u64": ("U64", "<u8"), "i64": ("I64", "<i8"), "f64": ("F64", "<f8"),
    "c64": ("C64", "<c8"), "f32": ("F32", "<f4"), "u32": ("U32", "<u4"),
    "i32": ("I32", "<i4"), "bf16": ("BF16", "<u2"), "f16": ("F16", "<f2"),
    "u16": ("U16", "<u2"), "i16": ("I16", "<i2"), "f8e4m3": ("F8_E4M3", "u1"),
    "f8e5m2": ("F8_E5M2", "u1"), "i8": ("I8", "i1"), "u8": ("U8", "u1"),
    "bool": ("BOOL", "?"),
}


def pattern(key, seed, num_bytes):
    total = seed * 1000003
    for byte in key.encode():
        total = (total * 31 + byte) & MASK
    index = np.arange(num_bytes, dtype=np.uint64) + np.uint64(
        total % 1000000007)
    return ((index * np.uint64(2654435761)) >> np.uint64(13)).astype(np.uint8)


def values(name, dtype, shape, seed):
    """Returns the array of a tensor."""
    numpy_type = np.dtype(DTYPES[dtype][1])
    count = int(np.prod(shape, dtype=np.int64))
    data = pattern(name, seed, count * numpy_type.itemsize)
    if dtype == "bool":
        data &= 1
    return data.view(numpy_type).reshape(shape)


def listed(path):
    """Returns {name: (dtype, shape)}."""
    tensors = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, dtype, shape = line.rstrip("\n").split("\t")
            lengths = [] if shape == "-" else [int(n) for n in shape.split(",")]
            tensors[name] = (dtype, lengths)
    return tensors


def no_twins(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("a name appears twice")
    return dict(pairs)


def read(path):
    """Returns the header of a file and {name: array as NumPy has it}."""
    with open(path, "rb") as file:
        content = file.read()
    length, = struct.unpack("<Q", content[:8])
    if length > 100_000_000 or length % 8 or content[8:9] != b"{":
        raise ValueError(f"{path}: bad length or begin of the header")
    header = json.loads(content[8:8 + length].decode("utf-8"),
                        object_pairs_hook=no_twins)
    data = content[8 + length:]
    arrays, end, order = {}, 0, []
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        place = [f for f, _ in DTYPES.values()].index(tensor["dtype"])
        numpy_type = np.dtype(list(DTYPES.values())[place][1])
        begin, stop = tensor["data_offsets"]
        if begin != end or sorted(tensor) != ["data_offsets", "dtype", "shape"]:
            raise ValueError(f"{path}: {name} does not follow its neighbour")
        if begin % numpy_type.itemsize:
            raise ValueError(f"{path}: {name} is not aligned")
        end = stop
        order.append((place, name))
        arrays[name] = np.frombuffer(
            data[begin:stop], numpy_type).reshape(tensor["shape"])
    if order != sorted(order):
        raise ValueError(f"{path}: not in order")
    if end != len(data):
        raise ValueError(f"{path}: {len(data) - end} bytes behind the tensors")
    return header, arrays


def read_all(path):
    """Returns the headers and arrays of a file, or of an index."""
    if not path.endswith(".json"):
        header, arrays = read(path)
        return [header], arrays
    with open(path, encoding="utf-8") as file:
        index = json.load(file, object_pairs_hook=no_twins)
    folder, headers, arrays = os.path.dirname(path), [], {}
    for name in sorted(set(index["weight_map"].values())):
        header, found = read(os.path.join(folder, name))
        if any(index["weight_map"].get(key) != name for key in found):
            raise ValueError(f"{name} holds what the index does not say")
        headers.append(header)
        arrays.update(found)
    if set(arrays) != set(index["weight_map"]):
        raise ValueError("the index names other tensors")
    if index["metadata"]["total_size"] != sum(a.nbytes for a in arrays.values()):
        raise ValueError("another total_size")
    return headers, arrays


def check(path, seed, listing, metadata):
    headers, arrays = read_all(path)
    need = listed(listing)
    problems = [f"{name} is not there" for name in set(need) - set(arrays)]
    problems += [f"{name} is there" for name in set(arrays) - set(need)]
    for header in headers:
        if header.get("__metadata__", {}) != metadata:
            problems.append(f"metadata: {header.get('__metadata__')}")
        for name in set(header) & set(need):
            dtype, shape = need[name]
            if header[name]["dtype"] != DTYPES[dtype][0]:
                problems.append(f"{name} is {header[name]['dtype']}")
            elif header[name]["shape"] != shape:
                problems.append(f"{name} has shape {header[name]['shape']}")
            elif arrays[name].tobytes() != values(name, dtype, shape,
                                                  seed).tobytes():
                problems.append(f"{name} ({dtype}) has other values")
    return problems


def write(path, tensors, seed, metadata, odd=False):
    """Writes one file as the reference implementation would; with `odd` in no
    order and not aligned."""
    order = {name: (list(DTYPES).index(tensors[name][0]), name)
             for name in tensors}
    if odd:
        order = {name: pattern(name, seed, 8).tobytes() for name in tensors}
    header, data = {}, b""
    if metadata and not odd:
        header["__metadata__"] = metadata
    for name in sorted(tensors, key=order.get):
        dtype, shape = tensors[name]
        content = values(name, dtype, shape, seed).tobytes()
        header[name] = {"dtype": DTYPES[dtype][0], "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    if odd:
        header = dict(sorted(header.items(), reverse=True))
        header["__metadata__"] = metadata
        text = json.dumps(header, indent=3).encode() + b"   "
    else:
        text = json.dumps(header, separators=(",", ":"),
                          ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write_all(folder, seed, listing):
    tensors = listed(listing)
    metadata = {"format": "pt", "na\u00efve": "\u65e5\u672c \"\n"}
    write(os.path.join(folder, "plain.safetensors"), tensors, seed, metadata)
    write(os.path.join(folder, "odd.safetensors"), tensors, seed, metadata,
          odd=True)
    inner = os.path.join(folder, "indexed")
    os.mkdir(inner)
    weights, names = {}, sorted(tensors)
    for part in range(3):
        name = f"part{part}.safetensors"
        mine = {key: tensors[key] for key in names[part::3]}
        write(os.path.join(inner, name), mine, seed, metadata, odd=part == 1)
        weights.update({key: name for key in mine})
    with open(os.path.join(inner, "model.safetensors.index.json"), "w",
              encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": 0}, "weight_map": weights}, file)


def main():
    command, path, seed, listing = sys.argv[1:5]
    if command == "write":
        return write_all(path, int(seed), listing)
    metadata = dict(text.split("=", 1) for text in sys.argv[5:])
    problems = check(path, int(seed), listing, metadata)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
