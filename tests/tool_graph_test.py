"""Tests belay graph on the golden checkpoints.

Usage: tool_graph_test.py BELAY GOLDEN_DIR VERSION
"""
import os
import pty
import struct
import subprocess
import sys
import unittest

import h5py

from tool_case import BELAY, GRAPH, SHARED, VALUES, ToolCase

STEP = GRAPH
HEAD = f"{STEP}: step 11, 15 objects, 12 values, 199 B, format 1.0\n\n"
TREE = """\
object                                       bytes  dtype   shape   layout
(root)                                       199 B
├─ model                                     116 B
│  ├─ größe a/b.c                              4 B  i32     []
│  ├─ embed                                   48 B  f32     [4, 3]  [rows,-] on rows=2
│  ├─ layers                                  64 B
│  │  ├─ 0                                    32 B
│  │  │  ├─ kernel                            24 B  f32     [6]
│  │  │  └─ bias                               8 B  f32     [2]
│  │  └─ 1                                    32 B
│  │     ├─ kernel                            24 B  f32     [6]
│  │     └─ bias                               8 B  f32     [2]
│  ├─ decoder -> (root).model.embed
│  └─ whole -> (root).model
├─ adam                                       75 B
│  ├─ rate                                     8 B  f64     []
│  ├─ random                                   3 B  opaque
│  ├─ steps                                    8 B  i64     []
│  ├─ m for (root).model.embed                48 B  f32     [4, 3]  [rows,-] on rows=2
│  └─ m for (root).model.layers.1.bias         8 B  f32     [2]
└─ save_counter                                8 B  i64     []
"""


class ToolGraphTest(ToolCase):
    def setUp(self):
        super().setUp()
        self.take(SHARED, GRAPH, VALUES)

    def test_graph(self):
        self.assertEqual(self.belay("graph", STEP), (0, HEAD + TREE, ""))

    def test_depth_and_values(self):
        self.assertEqual(
            self.belay("graph", STEP, "--depth", "1"),
            (0, HEAD + """\
object                   bytes  dtype   shape
(root)                   199 B
├─ model (11 more)       116 B
├─ adam (5 more)          75 B
└─ save_counter            8 B  i64     []
""", ""))
        self.assertEqual(
            self.belay("graph", STEP, "--no-values"),
            (0, HEAD + """\
object             bytes
(root)             199 B
├─ model           116 B
│  ├─ layers        64 B
│  │  ├─ 0          32 B
│  │  └─ 1          32 B
│  └─ whole -> (root).model
└─ adam             75 B
""", ""))
        self.assertEqual(self.belay("graph", STEP, "--values"),
                         (0, HEAD + TREE, ""))

    def test_show_by_the_path_of_an_object(self):
        def key(path):
            code, out, err = self.belay("show", STEP, path)
            self.assertEqual((code, err), (0, ""), path)
            return out[:out.index('": ') + 1]
        embed = key("model.embed")
        self.assertEqual(embed, '"model/embed/.ATTRIBUTES/VARIABLE_VALUE"')
        for path in ("(root).model.embed", "model.decoder",
                     "model.whole.whole.embed", embed.strip('"')):
            self.assertEqual(key(path), embed, path)
        momentum = key("adam.m for (root).model.embed")
        self.assertIn("OPTIMIZER_SLOT", momentum)
        self.assertEqual(key("(root).adam's state 'm' for (root).model.embed"),
                         momentum)
        for path, end in (("model.layers.1.bias", "layers/1/bias"),
                          ("adam.rate", "adam/.ATTRIBUTES/rate"),
                          ("save_counter", "save_counter")):
            self.assertIn(end, key(path))
        self.assertIn("gr", key("model.gr\u00f6\u00dfe a/b.c"))
        # Neither an object without a value nor a part of a name is one.
        for path in ("model", "model.layers", "model.emb", "model.embed.",
                     "model.embed.x", "embed", "(root)", "(root)model.embed",
                     ".model.embed", "adam", ""):
            code, out, err = self.belay("show", STEP, path)
            self.assertEqual((code, out), (2, ""), path)
            self.assertIn("is not in the checkpoint", err)

    # What belay graph names, belay show knows, if only to tell its arrays.
    def test_show_a_value_with_a_handler(self):
        code, out, err = self.belay("show", VALUES, "field.signal")
        self.assertEqual((code, out, err), (2, "", (
            'belay: INVALID_ARGUMENT: show "field/.ATTRIBUTES/signal": a value '
            'of type "golden signal", stored as 2 arrays; name one of them: '
            '"field/.ATTRIBUTES/signal/samples", '
            '"field/.ATTRIBUTES/signal/unit"\n')))
        code, out, err = self.belay("show", VALUES, "field.empty")
        self.assertEqual((code, out, err), (2, "", (
            'belay: INVALID_ARGUMENT: show "field/empty/.ATTRIBUTES/'
            'VARIABLE_VALUE": a value of type "golden station", stored as 0 '
            'arrays\n')))

    def test_without_a_graph(self):
        self.assertEqual(
            self.belay("graph", SHARED),
            (2, "", f'belay: NOT_FOUND: graph "{SHARED}": the checkpoint has '
                    "no object graph, it holds 23 arrays only; list them with "
                    "belay ls\n"))

    def test_color_on_a_terminal_only(self):
        def run(**more):
            ours, theirs = pty.openpty()
            subprocess.run([BELAY, "graph", STEP], cwd=self.dir.name,
                           stdout=theirs, check=True, timeout=60,
                           env={**os.environ, **more})
            os.close(theirs)
            text = b""
            try:
                while part := os.read(ours, 65536):
                    text += part
            except OSError:  # the other end is closed
                pass
            os.close(ours)
            return text.decode().replace("\r\n", "\n")
        self.assertIn("\x1b[1mmodel\x1b[0m", run(NO_COLOR=""))
        self.assertEqual(run(NO_COLOR="1"), HEAD + TREE)

    def test_objects_that_cannot_be_are_damage(self):
        self.copy(GRAPH)
        with h5py.File(self.path(f"{self.step}/index.h5")) as index:
            parents = index[".belay/graph/nodes/parent"][:]
        child = int((parents > 0).argmax())
        self.patch_index("graph/nodes/parent", child, struct.pack("<i", child))
        self.assertIn("DATA_LOSS", self.fails("graph", self.step))
        code, out, err = self.belay("verify", self.step)
        self.assertEqual((code, err), (1, ""))
        self.assertIn("damaged in 1 place", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
