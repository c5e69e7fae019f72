"""Writes inputs of the corpus that libhdf5 makes.

usage: hdf5_files.py CORPUS
"""

import os
import sys

import h5py
import numpy

LINKS = 60
MOST_BYTES = 20_000


def wide_group(file):
  """A group of so many links that they lie in blocks of blocks of a heap, below
  a tree of two levels. Returns names to look for."""
  group = file.create_group("g")
  target = file.create_group("t")
  for i in range(LINKS):
    group[f"name_of_a_link_{i}"] = target
  target["d"] = [1, 2, 3]
  return [f"g/name_of_a_link_{i}/d" for i in (0, 7, 31, LINKS - 1)] + ["g/none"]


def chunks(file):
  """Datasets whose chunks are found and filtered in each way that is read."""
  values = numpy.arange(60, dtype="<f4").reshape(6, 10)
  both = {"compression": "gzip", "shuffle": True, "fletcher32": True}
  file.create_dataset("single", data=values, chunks=(6, 10), **both)
  file.create_dataset("table", data=values, chunks=(4, 3), **both)
  file.create_dataset("plain", data=values, chunks=(4, 3))
  file.create_dataset("sum", data=values, chunks=(6, 5), fletcher32=True)
  implicit = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
  implicit.set_chunk((4, 3))
  implicit.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
  h5py.h5d.create(file.id, b"implicit", h5py.h5t.IEEE_F32LE,
                  h5py.h5s.create_simple((6, 10)), implicit)
  return list(file)


def shared_chunks(file):
  """Two chunks with filters that `write` puts in one place. A fuzz target
  repairs the checksum of the table."""
  file.create_dataset("shared", data=numpy.zeros(20, "u1"), chunks=(10,),
                      compression="gzip")
  return list(file)


def share(data):
  """Makes the second entry of a table of chunks the first one."""
  at = data.index(b"FADB") + 14
  size = data[data.index(b"FAHD") + 6]
  entry = data[at:at + size]
  return data[:at] + entry + entry + data[at + 2 * size:]


def pages(file):
  """A table of chunks that has more than one page."""
  file.create_dataset("pages", data=numpy.zeros(1100, "u1"), chunks=(1,))
  return list(file)


def write(corpus, make):
  path = os.path.join(corpus, "data_file", make.__name__ + ".bin")
  with h5py.File(path, "w", libver="latest") as file:
    names = make(file)
  with open(path, "rb") as file:
    data = file.read()
  if make is shared_chunks:
    data = share(data)
  with open(path, "wb") as file:
    file.write("".join(name + "\n" for name in names).encode() + data)
  assert os.path.getsize(path) < MOST_BYTES, path


if __name__ == "__main__":
  for make_one in (wide_group, chunks, shared_chunks, pages):
    write(sys.argv[1], make_one)
