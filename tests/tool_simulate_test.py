"""Tests `belay simulate`.

Usage: tool_simulate_test.py BELAY GOLDEN_DIR VERSION
"""
import json
import re
import sys
import unittest

from tool_case import ToolCase

TABLE = ("name\tdtype\tglobal_shape\ttp_axis\tpp\n"
         "w\tbf16\t8,6\t1\tfirst\n"
         "b\tbf16\t6\t-\tlast\n")


class SimulateTest(ToolCase):
    def simulate(self, *args):
        code, out, err = self.belay("simulate", *args)
        self.assertEqual((code, err), (0, ""))
        return out

    def test_a_save(self):
        lines = self.simulate("--model", "gpt2-small", "--from",
                              "dp=4").splitlines()
        self.assertEqual(
            lines[0], "gpt2-small.hf: 124439808 parameters, 1.4 GiB with the "
                      "state of AdamW")
        self.assertRegex(
            lines[2], r"^save dp=4: 4 ranks, 1 node, planned in [0-9.e-]+ s$")
        self.assertEqual(lines[3], "  445 arrays in 1 file, 445 datasets, 0 of "
                                   "them in chunks, 2 rounds")
        self.assertRegex(lines[4], r"^  plan: 1780 boxes, 12 messages, "
                                   r"[0-9.]+ KiB through rank 0$")
        self.assertEqual(lines[5].split(),
                         ["all", "ranks", "mean", "most", "most/mean"])
        self.assertEqual(lines[6].split()[:3], ["writes", "1.4", "GiB"])
        self.assertLess(float(lines[6].split()[-1]), 1.02)
        self.assertEqual(lines[7].split()[0], "requests")
        self.assertEqual(len(lines), 8)

    def test_a_restore(self):
        out = self.simulate("--model", "gpt2-small", "--from", "fsdp=4",
                            "--to", "tp=2", "--weights")
        self.assertIn("474.7 MiB without the state of AdamW", out)
        self.assertIn("\n\nrestore tp=2: 2 ranks, 1 node, planned in ", out)
        found = re.search(r"read/needed 1\.000: 474\.7 MiB of 474\.7 MiB; "
                          r"requests/pieces [0-9.]+: (\d+) of (\d+)", out)
        self.assertLess(int(found[1]), int(found[2]))
        self.assertIn("between nodes: 0 messages, 0 B; ", out)
        self.assertEqual([line.split()[0] for line in out.splitlines()[-4:]],
                         ["wants", "reads", "requests", "gets"])

    def test_for_programs(self):
        found = json.loads(self.simulate(
            "--model", "llama3-8b.mcore", "--from", "tp=2,pp=2,dp=2,zero=1",
            "--to", "fsdp=8", "--ranks-per-node", "4", "--json"))
        self.assertEqual(found["parameters"], 8030261248)
        save, restore = found["save"], found["restore"]
        self.assertEqual(save["parallelism"], "tp=2,pp=2,dp=2,zero=1")
        self.assertEqual(save["ranks"], 8)
        self.assertEqual(save["bytes"], 14 * 8030261248 + 8)
        self.assertEqual(save["written_bytes"]["all"], save["bytes"])
        self.assertGreater(restore["pieces"], 0)
        self.assertEqual(restore["needed_bytes"], save["bytes"])
        # Every rank wants the counter of steps.
        self.assertEqual(restore["wanted_bytes"]["all"],
                         save["bytes"] + 7 * 8)

    def test_options(self):
        self.path("mine.tsv").write_text(TABLE)
        out = self.simulate("--model", "mine.tsv", "--from", "tp=3",
                            "--files", "task", "--to", "dp=2", "--read", "each")
        self.assertIn("mine: 54 parameters, 764 B", out)
        self.assertIn("in 3 files,", out)
        self.assertIn("\n  each rank reads, as asked\n", out)
        out = self.simulate("--model", "mine.tsv", "--divide", "2", "--from",
                            "dp=1")
        self.assertIn("mine: 15 parameters", out)
        padded = json.loads(self.simulate(
            "--model", "gpt2-small.mcore", "--from", "tp=4", "--to", "tp=2",
            "--pad-vocabulary", "128", "--json"))
        self.assertEqual(
            padded["save"]["bytes"] - padded["restore"]["needed_bytes"],
            256 * 768 * 14)

    def test_mistakes(self):
        self.path("bad.tsv").write_text(TABLE.replace("pp", "stage"))
        self.path("red.tsv").write_text(TABLE.replace("pp", "\x1b[31mred"))
        for args, text in [
                (["--model", "gpt5", "--from", "dp=1"],
                 "need a file or one of gpt2-small.hf, gpt2-small.mcore, "),
                (["--model", "bad.tsv", "--from", "dp=1"],
                 'read "bad.tsv": line 1, column "stage": unknown column'),
                (["--model", "red.tsv", "--from", "dp=1"],
                 r'line 1, column "\x1b[31mred": unknown column'),
                (["--model", "gpt2-small", "--from", "dp=4,qp=2"],
                 'parse parallelism "dp=4,qp=2": unknown degree "qp"'),
                (["--model", "gpt2-small", "--from", "tp=24"],
                 "has fewer units along axis 1 than there are TP ranks (need "
                 "tp=12 or less, found tp=24)"),
                (["--model", "gpt2-small", "--from", "dp=1", "--to", "tp"],
                 'need parts such as tp=8, found "tp"'),
                (["--model", "gpt2-small", "--from", "dp=1", "--to", "dp=2",
                  "--read", "twice"],
                 "simulate: unknown way to read (need auto, each or once, "
                 'found "twice")'),
                (["--model", "gpt2-small", "--from", "dp=1", "--files", "all"],
                 "simulate: unknown file layout (need shared, node or task, "
                 'found "all")'),
                (["--model", "gpt2-small", "--from", "dp=1", "--divide", "0"],
                 "--divide"),
                (["--model", "gpt2-small"], "--from"),
                (["--from", "dp=1"], "--model")]:
            code, out, err = self.belay("simulate", *args)
            self.assertEqual((code, out), (2, ""), args)
            self.assertIn(text, err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
