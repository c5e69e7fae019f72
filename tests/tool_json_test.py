"""Tests --json of all commands on the golden checkpoints.

Usage: tool_json_test.py BELAY GOLDEN_DIR VERSION
One object on stdout in any case, with the exit codes of the command.
"""
import base64
import json
import math
import struct
import sys
import unittest

import h5py
import numpy as np

import safetensors_format
from tool_case import (GRAPH, GROUPS, PER_TASK, SHARED, STRUCTS, TIME, VALUES,
                       ToolCase)

OTHER = "other/step_00000007"


class ToolJsonTest(ToolCase):
    def json(self, *args, expected=0):
        """What a command prints, which is ASCII."""
        code, out, err = self.belay(*args, "--json")
        self.assertEqual(code, expected, (args, out, err))
        self.assertEqual(err != "", code == 2)
        self.assertTrue(out.isascii())
        return json.loads(out, parse_constant=self.fail)

    def stored(self, step):
        """Keys, dtypes and values, as h5py finds them."""
        with h5py.File(self.path(step) / "index.h5") as index:
            return {key.decode(): number for key, number in
                    zip(index[".belay/arrays/key"][:],
                        index[".belay/arrays/dtype"][:])}

    def test_ls(self):
        found = self.json("ls", SHARED)
        arrays = found.pop("arrays")
        self.assertEqual(
            found, {"path": SHARED, "step": 7, "time": TIME, "format": {"major": 1, "minor": 0},
                    "file_layout": "shared", "files": 1,
                    "file_bytes": found["file_bytes"], "bytes": 414,
                    "checksums": True, "graph": False, "metadata": {},
                    "values": []})
        self.assertGreater(found["file_bytes"], 414)
        self.assertEqual([a["key"] for a in arrays], list(self.stored(SHARED)))
        self.assertEqual(
            arrays[-1], {"key": "w", "dtype": "i32", "shape": [6, 10],
                         "bytes": 240, "fields": None,
                         "stored_as": "2 chunks of [6, 6]",
                         "layout": None, "args": None})
        self.assertEqual(self.json("ls", "run")["file_layout"], "task")

    def test_ls_shards(self):
        pieces = self.json("ls", "--shards", SHARED)["pieces"]
        self.assertEqual(
            pieces[-1], {"file": "data_00000_of_00001.h5", "group": 0,
                         "key": "w", "offset": [0, 0], "shape": [6, 10],
                         "task": None, "shards": []})
        self.take(GROUPS)
        found = self.json("ls", "--shards", GROUPS)
        self.assertEqual(found["file_layout"], "shared")
        self.assertEqual(len(found["arrays"]), 23)
        self.assertIn({"file": "data_00001_of_00003.h5", "group": 1, "key": "w",
                       "offset": [4, 0], "shape": [2, 6], "task": 0,
                       "shards": [{"offset": [4, 0], "shape": [2, 6],
                                   "devices": ["/task:0"]}]},
                      found["pieces"])

    def test_ls_of_values_with_handlers(self):
        self.take(SHARED, VALUES)
        steps = [step for step in self.run_dir.iterdir()
                 if self.json("ls", str(step))["values"]]
        self.assertTrue(steps)
        for step in steps:
            found = self.json("ls", str(step))
            keys = {array["key"] for array in found["arrays"]}
            for value in found["values"]:
                self.assertTrue(value["type"])
                for part in value["parts"]:
                    self.assertIn(part["key"], keys)

    def test_show(self):
        for key, values in (
                ("types", 17), ("types/bool", [True, False, True]),
                ("types/c64", [1.5, -2.0]), ("types/f64", 0.1),
                ("types/c128", [[0.0, 1.0], [-3.25, 1e300]]),
                ("types/f8e4m3", [1.0, -448.0]),
                ("types/i64", -2**63), ("types/u64", [2**64 - 1, 2]),
                ("types/i16", [[[-32768], [32767]]]),
                ("none", [[], [], []]), ("empty text", ""),
                ("text", "gr\u00fc\u00df dich, belay")):
            self.assertEqual(self.json("show", SHARED, key)["values"], values)
        found = self.json("show", SHARED, "types/f32")
        self.assertEqual(found.pop("values")[0][1:],
                         [-1.25, float(np.float32(3e38))])
        self.assertEqual(
            found, {"path": SHARED, "step": 7, "key": "types/f32",
                    "dtype": "f32", "shape": [2, 3], "bytes": 24,
                    "fields": None, "stored_as": "contiguous", "layout": None,
                    "args": None,
                    "box": {"offset": [0, 0], "shape": [2, 3]},
                    "checked": True})
        found = self.json("show", SHARED, "w", "--box", "4,2:5,3")
        self.assertEqual(found["box"], {"offset": [4, 5], "shape": [2, 3]})
        self.assertEqual(found["values"], [[45, 46, 47], [55, 56, 57]])
        self.assertIsNone(self.json("show", SHARED, "text")["box"])

    def test_show_leaves_out_what_is_long(self):
        for key, at_most in ("w", 60), ("text", 18), ("none", 3), ("types", 1):
            show = ["show", SHARED, key, "--max"]
            self.assertIsNotNone(self.json(*show, str(at_most))["values"])
            self.assertIsNone(self.json(*show, str(at_most - 1))["values"])
        found = self.json("show", SHARED, "w", "--max", "0", "--stats")
        self.assertEqual(found["stats"]["elements"], 60)

    def test_show_numbers_that_are_none(self):
        self.copy()
        values = [math.nan, -math.inf, math.inf, 1.5, -0.0, 5]
        self.change("types/f32", 0, struct.pack("<6f", *values))
        found = self.json("show", OTHER, "types/f32", "--stats")
        self.assertEqual(found["values"], [["NaN", "-Infinity", "Infinity"],
                                           [1.5, 0.0, 5.0]])
        self.assertEqual(math.copysign(1, found["values"][1][1]), -1)
        # So Python reads them again.
        np.testing.assert_array_equal(
            np.array(found["values"], object).astype("f4").ravel(),
            np.array(values, "f4"))
        self.assertEqual(found["stats"], {
            "elements": 6, "min": 0.0, "max": 5.0, "mean": 6.5 / 3,
            "zeros": 1, "nans": 1, "infinities": 2})

    def test_show_statistics(self):
        stats = self.json("show", SHARED, "types/u64", "--stats")["stats"]
        self.assertEqual((stats["min"], stats["max"], stats["mean"]),
                         (2, 2**64 - 1, (2**64 + 1) / 2))
        stats = self.json("show", SHARED, "types/c64", "--stats")["stats"]
        self.assertEqual((stats["min"], stats["mean"]), (2.5, [1.5, -2.0]))
        self.assertEqual(
            self.json("show", SHARED, "none", "--stats")["stats"],
            {"elements": 0, "min": None, "max": None, "mean": None, "zeros": 0,
             "nans": 0, "infinities": 0})

    def test_texts_that_are_not_utf8(self):
        self.copy()
        self.change("text", 0, b'"\x07\xc3(\x7f\xc2\x85')
        with h5py.File(self.path(f"{OTHER}/index.h5")) as index:
            text = bytes(index["text"][()])
        found = self.json("show", OTHER, "text")["values"]
        self.assertEqual(base64.b64decode(found["base64"]), text)
        with h5py.File(self.path(OTHER + "/index.h5")) as index:
            keys = [k.decode() for k in index[".belay/arrays/key"][:]]
        key = b"types/b\x1b\xffl"
        self.patch_index("arrays/key", keys.index("types/bf16"), key)
        name = {"base64": base64.b64encode(key).decode()}
        self.assertIn(name, [array["key"] for array in
                             self.json("ls", OTHER)["arrays"]])
        self.assertEqual(
            [(found["kind"], found["key"]) for found in
             self.json("diff", SHARED, OTHER, expected=1)["differences"]],
            [("text", "text"), ("only_in_b", name),
             ("only_in_a", "types/bf16")])

    def test_graph(self):
        self.take(GRAPH)
        step = GRAPH
        found = self.json("graph", step)
        objects = found.pop("objects")
        self.assertEqual(found, {"path": step, "step": 11,
                                 "format": {"major": 1, "minor": 0},
                                 "bytes": 199, "other_arrays": 0})
        self.assertEqual([o["id"] for o in objects], list(range(15)))
        by_path = {o["path"]: o for o in objects}
        root, model = by_path["(root)"], by_path["(root).model"]
        self.assertIsNone(root["parent"])
        self.assertEqual([child["name"] for child in root["children"]],
                         ["model", "adam", "save_counter"])
        self.assertEqual(objects[root["children"][0]["object"]], model)
        self.assertIn({"name": "whole", "object": model["id"]},
                      model["children"])
        embed = by_path["(root).model.embed"]
        self.assertEqual(embed["parent"], model["id"])
        self.assertEqual(embed["values"], [
            {"name": "VARIABLE_VALUE",
             "key": "model/embed/.ATTRIBUTES/VARIABLE_VALUE", "dtype": "f32",
             "shape": [4, 3], "bytes": 48, "layout": "[rows,-] on rows=2",
             "opaque": False, "type": None}])
        slot = by_path["(root).adam"]["slots"][0]
        self.assertEqual((slot["name"], slot["variable"]), ("m", embed["id"]))
        self.assertIn("state 'm'", objects[slot["object"]]["path"])
        # What is deeper is left out, with the numbers that others have.
        shallow = self.json("graph", step, "--depth", "1", "--no-values")
        self.assertEqual([o["path"] for o in shallow["objects"]],
                         ["(root)", "(root).model", "(root).adam",
                          "(root).save_counter"])
        self.assertNotIn("values", shallow["objects"][0])
        self.assertEqual(shallow["objects"][1]["children"], model["children"])

    def test_diff(self):
        self.assertEqual(self.json("diff", SHARED, PER_TASK), {
            "a": SHARED, "b": PER_TASK, "compared": "values", "tolerance": None,
            "equal": True,
            "counts": {"only_in_a": 0, "only_in_b": 0, "other_type_or_shape": 0,
                       "other_values": 0, "equal": 23}, "differences": []})
        self.copy()
        self.change("types/f32", 1, struct.pack("<2f", -1.0, math.nan))
        self.change("types/u64", 0, struct.pack("<Q", 2**64 - 2))
        self.change("text", 5, b"!")
        found = self.json("diff", SHARED, OTHER, expected=1)
        self.assertFalse(found["equal"])
        self.assertEqual(found["counts"]["other_values"], 3)
        self.assertEqual(found["differences"], [
            {"kind": "text", "key": "text", "first_byte": 5, "bytes_a": 18,
             "bytes_b": 18},
            {"kind": "values", "key": "types/f32", "differing": 2,
             "elements": 6, "position": [0, 1], "a": -1.25, "b": -1.0},
            {"kind": "values", "key": "types/u64", "differing": 1,
             "elements": 2, "position": [0], "a": 2**64 - 1, "b": 2**64 - 2}])
        found = self.json("diff", SHARED, OTHER, "--tolerance", "2", expected=1)
        self.assertEqual(found["tolerance"], 2.0)
        self.assertEqual(found["differences"][1:], [
            {"kind": "values", "key": "types/f32", "differing": 1,
             "elements": 6, "position": [0, 2], "a": float(np.float32(3e38)),
             "b": "NaN", "distance": "Infinity"}])
        found = self.json("diff", SHARED, OTHER, "--keys")
        self.assertEqual((found["compared"], found["equal"]), ("keys", True))

    def test_diff_of_structure(self):
        self.copy()
        index = self.path(OTHER + "/index.h5")
        with h5py.File(index) as opened:
            keys = [k.decode() for k in opened[".belay/arrays/key"][:]]
            shapes = opened[".belay/arrays/shape"][:].tolist()
            boxes = opened[".belay/datasets/box"][:].tolist()
        self.patch_index("arrays/key", keys.index("none"), b"nonf")
        self.patch_index("arrays/dtype", keys.index("types/i32"), b"\x0d")
        for column, rows in ("arrays/shape", shapes), ("datasets/box", boxes):
            at = [i for i in range(len(rows)) if rows[i:i + 3] == [1, 2, 1]][0]
            self.patch_index(column, at, struct.pack("<3q", 2, 1, 1))
        self.assertEqual(
            self.json("diff", SHARED, OTHER, expected=1)["differences"], [
                {"kind": "only_in_a", "key": "none", "dtype": "f64",
                 "shape": [3, 0]},
                {"kind": "only_in_b", "key": "nonf", "dtype": "f64",
                 "shape": [3, 0]},
                {"kind": "shape", "key": "types/i16", "a": [1, 2, 1],
                 "b": [2, 1, 1]},
                {"kind": "dtype", "key": "types/i32", "a": "i32", "b": "u32"}])

    def test_plan(self):
        found = self.json("plan", SHARED, "--ranks", "20", "--read", "once")
        self.assertEqual((found["path"], found["step"], found["arrays"]),
                         (SHARED, 7, 23))
        self.assertEqual(found["read"], "once")
        self.assertEqual(len(found["ranks"]), 20)
        for name, total in found["all"].items():
            self.assertEqual(total, sum(rank[name] for rank in found["ranks"]))
        self.assertEqual(found["all"]["read_bytes"], 414)
        self.assertEqual(found["all"]["delivered_bytes"], 19 * 414)
        found = self.json("plan", SHARED, "--ranks", "2")
        self.assertEqual(found["read"], "each")
        self.assertIn("each rank reads", found["note"])

    def test_simulate(self):
        found = self.json("simulate", "--model", "gpt2-small", "--from", "dp=4")
        self.assertEqual(found["model"], "gpt2-small.hf")
        self.assertNotIn("restore", found)

    def test_verify(self):
        self.assertEqual(self.json("verify", SHARED, "-q"), {
            "path": SHARED, "step": 7, "arrays": 23, "blocks": 21, "bytes": 414,
            "checksums": True, "sound": True, "damage": [],
            "other_steps": 0})
        self.assertEqual(self.json("verify", "run")["other_steps"], 1)
        self.flip(f"{SHARED}/data_00000_of_00001.h5",
                  "gr\u00fc\u00df dich, belay".encode())
        found = self.json("verify", SHARED, expected=1)
        self.assertFalse(found["sound"])
        self.assertEqual(len(found["damage"]), 1)
        self.assertIn('checksum of key "text"', found["damage"][0])

    def test_export_and_import(self):
        found = self.json("export", SHARED, "x.safetensors",
                          "--leave-out-others")
        self.assertEqual(found["left_out"][0], {
            "name": "empty text",
            "reason": "safetensors has no form for string"})
        del found["left_out"]
        header, _ = safetensors_format.read(str(self.path("x.safetensors")))
        size = self.path("x.safetensors").stat().st_size
        self.assertEqual(len([k for k in header if k != "__metadata__"]), 20)
        self.assertEqual(found, {
            "path": SHARED, "step": 7, "tensors": 20, "bytes": 364,
            "files": [{"path": "x.safetensors", "tensors": 20, "bytes": size}],
            "index": None, "blocks_verified": 19, "blocks_partial": 0})
        self.assertEqual(self.json("import", "x.safetensors", "new"), {
            "path": "new/step_00000000", "step": 0, "tensors": 20, "texts": 0,
            "bytes": 364, "left_out": [],
            "files": [{"path": "x.safetensors", "tensors": 20, "bytes": size}]})
        found = self.json("export", SHARED, "hf", "--leave-out-others",
                          "--max-file-bytes", "1kb")
        self.assertEqual(found["index"], "hf/model.safetensors.index.json")
        self.assertEqual(len(found["files"]), 2)

    def test_errors(self):
        for args in (["ls"], ["verify"], ["show", "types"], ["graph"],
                     ["diff", "run"], ["plan", "--ranks", "1"],
                     ["export", "x.safetensors"]):
            found = self.json(args[0], "none", *args[1:], expected=2)
            self.assertEqual(list(found), ["error"])
            self.assertEqual(found["error"]["code"], "NOT_FOUND", args)
            self.assertIn('"none"', found["error"]["message"])
        found = self.json("import", "none", "new", expected=2)
        self.assertEqual(found["error"]["code"], "NOT_FOUND")
        found = self.json("simulate", "--model", "gpt5", "--from", "dp=1",
                          expected=2)
        self.assertIn('found "gpt5"', found["error"]["message"])
        self.flip(f"{SHARED}/index.h5", b"odd/100%/a@b")
        for args in ["ls"], ["verify"], ["show", "types"], ["diff", "run"]:
            found = self.json(args[0], SHARED, *args[1:], expected=2)
            self.assertEqual(found["error"]["code"], "DATA_LOSS")

    def test_wrong_usage(self):
        for args in (["ls"], ["show", SHARED, "w", "--max", "-1"], ["look"],
                     ["plan", "run"], ["simulate"]):
            found = self.json(*args, expected=2)
            self.assertEqual(found["error"]["code"], "INVALID_ARGUMENT", args)

    def test_stderr_says_errors_as_ever(self):
        code, out, err = self.belay("ls", "none")
        self.assertEqual(self.belay("ls", "none", "--json")[2], err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
