"""What the tests of the belay command share: the golden checkpoints in a
folder of their own, and ways to change them.
"""
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy

BELAY, GOLDEN, VERSION = sys.argv[1:4]

SHARED = "run/step_00000007"
GROUPS = "run/step_00000009"
GRAPH = "run/step_00000011"
VALUES = "run/step_00000013"
ARGS = "run/step_00000015"
STRUCTS = "run/step_00000018"
PER_TASK = "run/step_100000008"
TIME = "2023-11-14 22:13:20Z"

# What the two digests of an index cover, in order; a column that is left out has
# no rows.
STRUCTURE = [
    "header/magic", "header/format", "header/file_layout", "header/block_bytes",
    "arrays/key", "arrays/dtype", "arrays/ndim", "arrays/shape",
    "arrays/string_bytes", "arrays/args", "arrays/layout", "files/name",
    "datasets/array", "datasets/file", "datasets/chunked", "datasets/box",
    "datasets/chunk", "datasets/group", "datasets/task", "datasets/filters",
    "graph/nodes/parent", "graph/nodes/optimizer", "graph/nodes/name",
    "graph/children/holder", "graph/children/name", "graph/children/node",
    "graph/attributes/node", "graph/attributes/name", "graph/attributes/array",
    "graph/attributes/layout", "graph/attributes/opaque",
    "graph/slots/optimizer", "graph/slots/variable", "graph/slots/name",
    "graph/slots/node", "values/key", "values/typestr", "values/node",
    "values/name", "values/parts/value", "values/parts/name",
    "values/parts/array", "rows/array", "rows/ranks", "rows/count",
    "rows/first", "structs/array", "structs/fields", "files/bytes",
    "datasets/offset"]
CHANGING = ["step", "header/time", "checksums/crc32c"]


def digest(index, columns):
    content = b""
    for name in columns:
        column = numpy.zeros(0)
        if ".belay/" + name in index:
            column = index[".belay/" + name][:]
        content += struct.pack("<Q", len(column))
        if column.dtype.kind == "S":
            for text in column:
                content += struct.pack("<Q", len(text)) + bytes(text)
        else:
            content += column.tobytes()
    return crc32c(content)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class ToolCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.run_dir = pathlib.Path(self.dir.name) / "run"
        self.take(SHARED, PER_TASK)

    def take(self, *steps):
        """Has these golden steps in the run."""
        shutil.rmtree(self.run_dir, ignore_errors=True)
        for step in steps:
            self.copy(step, "run")

    def path(self, name):
        return pathlib.Path(self.dir.name) / name

    def belay(self, *args):
        done = subprocess.run([BELAY, *args], cwd=self.dir.name, text=True,
                              capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def run_belay(self, *args, expected=0):
        code, out, err = self.belay(*args)
        self.assertEqual((code, err), (expected, ""))
        return out

    def fails(self, *args):
        code, out, err = self.belay(*args)
        self.assertEqual((code, out), (2, ""))
        return err

    def flip(self, name, text):
        """Flips a bit of the one place in a file that holds these bytes."""
        content = bytearray(self.path(name).read_bytes())
        self.assertEqual(content.count(text), 1)
        content[content.find(text)] ^= 1
        self.path(name).write_bytes(content)

    def copy(self, step=SHARED, run="other"):
        """Another copy of a step."""
        name = pathlib.Path(step).name
        shutil.copytree(pathlib.Path(GOLDEN) / "format_1_0" / name,
                        self.path(run) / name)
        self.step = f"{run}/{name}"

    def patch(self, file, dataset, row, data):
        """Overwrites a contiguous dataset from a row on, or a text from a byte
        on."""
        with h5py.File(self.path(file)) as opened:
            at = opened[dataset]
            size = 1 if at.shape == () else at.dtype.itemsize
            offset = at.id.get_offset() + row * size
        with open(self.path(file), "r+b") as opened:
            opened.seek(offset)
            opened.write(data)

    def change(self, key, row, data):
        """Changes values in the step there, checksum included."""
        self.patch(f"{self.step}/data_00000_of_00001.h5", key, row, data)
        with h5py.File(self.path(f"{self.step}/index.h5")) as index:
            content = index[key][()]
            keys = [k.decode() for k in index[".belay/arrays/key"][:]]
        # One block for each array but those without bytes.
        full = [k for k in keys if k not in ("empty text", "none")]
        content = bytes(content) if key == "text" else content.tobytes()
        self.patch_index("checksums/crc32c", full.index(key),
                         struct.pack("<I", crc32c(content)))

    def patch_index(self, column, row, data):
        """Changes a column of the index there, and makes the digests right."""
        name = f"{self.step}/index.h5"
        self.patch(name, ".belay/" + column, row, data)
        with h5py.File(self.path(name)) as index:
            digests = digest(index, STRUCTURE), digest(index, CHANGING)
        self.patch(name, ".belay/digest", 0, struct.pack("<II", *digests))
