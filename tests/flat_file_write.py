"""Writes HDF5 files as other programs do, with h5py and nothing of belay.

usage: flat_file_write.py DIRECTORY

Numbers are their place in the array, row-major, modulo 100; complex ones have
minus that as imaginary part.
"""

import os
import sys

import h5py
import numpy as np

SHAPE = (9, 7)
NUMBERS = ["<f2", "<f4", "<f8", ">f2", ">f4", ">f8", "<c8", "<c16", ">c8",
           "i1", "<i2", "<i4", "<i8", ">i2", ">i4", ">i8",
           "u1", "<u2", "<u4", "<u8", ">u2", ">u4", ">u8", "?"]


def numbers(shape, dtype):
    values = np.arange(int(np.prod(shape))) % 100
    if np.dtype(dtype).kind == "c":
        values = values - 1j * values
    return values.reshape(shape).astype(dtype)


def write_numbers(file):
    for dtype in NUMBERS:
        order = {"<": "little/", ">": "big/"}.get(dtype[0], "")
        name = "numbers/" + order + np.dtype(dtype).name
        file[name] = numbers(SHAPE, dtype)
    bf16 = h5py.h5t.IEEE_F32LE.copy()
    bf16.set_fields(15, 7, 8, 0, 7)
    bf16.set_size(2)
    bf16.set_ebias(127)
    space = h5py.h5s.create_simple(SHAPE)
    dataset = h5py.Dataset(
        h5py.h5d.create(file["numbers"].id, b"bf16", bf16, space))
    dataset[...] = numbers(SHAPE, "f4")


def write_storage(file):
    shape = (40, 31)
    values = numbers(shape, "f8")
    file.create_dataset("storage/chunks", data=values, chunks=(8, 7),
                        maxshape=(None, None))
    file.create_dataset("storage/gzip", data=values, chunks=(9, 31),
                        compression="gzip", shuffle=True, fletcher32=True)
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    dataset = h5py.Dataset(h5py.h5d.create(
        file["storage"].id, b"compact", h5py.h5t.IEEE_F32LE,
        h5py.h5s.create_simple((3,)), compact))
    dataset[...] = numbers((3,), "f4")
    file.create_dataset("storage/never_written", (4,), "f4")
    file["storage/scalar"] = np.float32(0)
    file["storage/no_elements"] = np.zeros((0, 3), "f4")
    file.create_dataset("storage/five", data=numbers((2, 3, 4, 2, 3), "i4"),
                        chunks=(1, 2, 3, 2, 2))


def write_texts(file):
    file["text/variable"] = "grüße"
    file["text/variable_empty"] = ""
    file["text/fixed"] = np.array(b"fixed", "S10")
    file["text/null"] = h5py.Empty("S1")
    spaces = h5py.h5t.C_S1.copy()
    spaces.set_size(8)
    spaces.set_strpad(h5py.h5t.STR_SPACEPAD)
    dataset = h5py.h5d.create(file["text"].id, b"spaces", spaces,
                              h5py.h5s.create(h5py.h5s.SCALAR))
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(b"for tran", "S8"),
                  spaces)
    file["text/array"] = np.array([b"a", b"b"])


def write_unknown(file):
    file["unknown/compound"] = np.zeros(2, [("a", "i4"), ("b", "f8")])
    file["unknown/enum"] = np.array(
        [1], h5py.enum_dtype({"red": 0, "blue": 1}, basetype="i4"))
    file["unknown/opaque"] = np.zeros(2, "V5")
    file["unknown/long_double"] = np.zeros(2, np.longdouble)
    file["unknown/null"] = h5py.Empty("f4")
    file["unknown/reference"] = np.array([file.ref], h5py.ref_dtype)
    file.create_dataset("unknown/lists", (1,), h5py.vlen_dtype(np.int32))
    file["type"] = np.dtype("i4")  # a named type, no dataset


def write_links(file):
    file["hard"] = file["storage/chunks"]
    file["links/soft"] = h5py.SoftLink("/storage/gzip")
    file["links/group"] = h5py.SoftLink("/text")
    file["links/nowhere"] = h5py.SoftLink("/absent")
    file["links/external"] = h5py.ExternalLink("other.h5", "group/v")
    file["links/external_absent"] = h5py.ExternalLink("absent.h5", "v")
    file["links/root"] = h5py.SoftLink("/")
    file["links/self"] = file["links"]
    file["links/back"] = h5py.ExternalLink("other.h5", "back")


def virtual(file, name, source, path="group/v"):
    layout = h5py.VirtualLayout((4, 3), "f4")
    layout[:2] = h5py.VirtualSource(source, path, (4, 3))[:2]
    layout[2:] = h5py.VirtualSource(source, path, (4, 3))[2:]
    file.create_virtual_dataset(name, layout)


def write_virtual(file):
    virtual(file, "virtual/there", "other.h5")
    virtual(file, "virtual/same_file", ".", "virtual_source")
    virtual(file, "virtual/no_file", "absent.h5")
    virtual(file, "virtual/no_dataset", "other.h5", "absent")
    virtual(file, "virtual/percent", "100%%.h5")
    rows = h5py.h5s.create_simple((4, 3), (h5py.h5s.UNLIMITED, 3))
    rows.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (2, 3), (2, 3))
    pattern = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    pattern.set_virtual(rows, b"part_%b.h5", b"v",
                        h5py.h5s.create_simple((2, 3)))
    h5py.h5d.create(file["virtual"].id, b"pattern", h5py.h5t.IEEE_F32LE,
                    h5py.h5s.create_simple((4, 3), (h5py.h5s.UNLIMITED, 3)),
                    pattern)
    file["virtual_source"] = numbers((4, 3), "f4")


def main():
    os.chdir(sys.argv[1])
    with h5py.File("other.h5", "w") as file:
        file["group/v"] = numbers((4, 3), "f4")
        file["back"] = h5py.ExternalLink("flat.h5", "links")
    with h5py.File("100%.h5", "w") as file:
        file["group/v"] = numbers((4, 3), "f4")
    with h5py.File("flat.h5", "w") as file:
        for write in [write_numbers, write_storage, write_texts, write_unknown,
                      write_links, write_virtual]:
            write(file)
    with h5py.File("filter.h5", "w") as file:
        file.create_dataset("lzf", data=numbers((50,), "f4"), chunks=(50,),
                            compression="lzf")
    with h5py.File("paths.h5", "w") as file:  # 2 ** 30 paths
        for i in range(30):
            file.create_group(str(i))
        for i in range(29):
            for name in "ab":
                file[str(i)][name] = file[str(i + 1)]


main()
