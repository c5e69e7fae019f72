"""Reads the step of 12_devices_and_files: read_merged_index.py INDEX.

Needs only h5py: in the index, each array is complete, assembled from the files
of all tasks, and the object graph is stored as columns.
"""

import sys

import h5py
import numpy


def main():
    with h5py.File(sys.argv[1]) as index:
        columns = index[".belay"]
        names = [name.decode() or "(root)" for name in columns["graph/nodes/name"]]
        for holder, name in zip(columns["graph/children/holder"],
                                columns["graph/children/name"]):
            print(f"object {names[holder]} has {name.decode()}")
        for node, name, kind in zip(columns["values/node"], columns["values/name"],
                                    columns["values/typestr"]):
            print(f"{names[node]}.{name.decode()} is a {kind.decode()}")
        for key in (key.decode() for key in columns["arrays/key"]):
            array = index[key]
            sources = array.virtual_sources() if array.is_virtual else []
            files = len({source.file_name for source in sources}) or 1
            print(f"{key}: {array.dtype} {array.shape} in "
                  f"{files} file{'s' if files > 1 else ''}")
        weights = index["model/.ATTRIBUTES/weights"]
        expected = numpy.arange(weights.size).reshape(weights.shape)
        if not numpy.array_equal(weights, expected):
            sys.exit(f"read {sys.argv[1]}: other weights than were saved")


main()
