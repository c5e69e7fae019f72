"""Tests `belay plan`.

Usage: tool_plan_test.py BELAY GOLDEN_DIR VERSION
"""
import sys
import unittest

from tool_case import PER_TASK, SHARED, ToolCase


class PlanTest(ToolCase):
    def plan(self, *args, path="run/step_00000007"):
        code, out, err = self.belay("plan", path, *args)
        self.assertEqual((code, err), (0, ""))
        return out.splitlines()

    def row(self, lines, name):
        for line in lines:
            if line.split()[:1] == [name]:
                return line.split()[1:]
        self.fail(f"no row {name}: {lines}")

    def test_every_rank_reads_what_is_small(self):
        lines = self.plan("--ranks", "2", path=SHARED)
        self.assertEqual(
            lines[:2],
            [f"{SHARED}: step 7, 23 arrays, restored on 2 ranks",
             "each rank reads: sharing would save too little (need 2097152 "
             "bytes, found 414)"])
        self.assertEqual(lines[3].split(),
                         ["rank", "wants", "reads", "pieces", "gets"])
        for rank in "0", "1":
            self.assertEqual(self.row(lines, rank),
                             ["414", "B", "414", "B", "22", "0", "B"])
        self.assertEqual(self.row(lines, "all"),
                         ["828", "B", "828", "B", "44", "0", "B"])
        self.assertEqual(len(lines), 7)

    def test_once(self):
        for path in SHARED, PER_TASK:
            lines = self.plan("--ranks", "3", "--read", "once", path=path)
            self.assertEqual(lines[1], "each byte is read once, 828 of 1242 "
                                       "are saved")
            total = self.row(lines, "all")
            self.assertEqual(total[:4] + total[5:],
                             ["1.2", "KiB", "414", "B", "828", "B"])

    def test_primary_replica(self):
        lines = self.plan("--ranks", "4", "--replicas", "2",
                          "--primary-replica", "1")
        # Of what is cut ranks 2 and 3 hold the second replica, and of what
        # all hold whole rank 1 does.
        self.assertEqual(self.row(lines, "0")[2:5], ["0", "B", "0"])
        for rank in "1", "2", "3":
            self.assertNotEqual(self.row(lines, rank)[2:5], ["0", "B", "0"])

    def test_cuts(self):
        lines = self.plan("--ranks", "2", "--layout", "[-,x] on x=2",
                          "--read", "each")
        self.assertEqual(lines[1], "each rank reads, as asked")
        whole = self.row(self.plan("--ranks", "2", "--read", "each"), "all")
        self.assertNotEqual(self.row(lines, "all")[:2], whole[:2])
        lines = self.plan("--ranks", "40", "--rows")
        self.assertIn("  ...  24 more", lines)

    def test_no_data_is_touched(self):
        for file in (self.run_dir / "step_00000007").glob("data*"):
            file.unlink()
        self.assertEqual(len(self.plan("--ranks", "2")), 7)

    def test_mistakes(self):
        for args, text in [
                (["--ranks", "0"], "--ranks"),
                (["--ranks", "6", "--replicas", "4"],
                 "the replicas do not divide the ranks (need a divisor of 6, "
                 "found 4)"),
                (["--ranks", "4", "--layout", "[x] on x=2"],
                 "is for another number of ranks (need 4, found 2)"),
                (["--ranks", "4", "--layout", "rows"], "INVALID_ARGUMENT"),
                (["--ranks", "4", "--read", "twice"],
                 'need auto, each or once, found "twice"'),
                (["--ranks", "4", "--primary-replica", "9"],
                 "no shard has the number of the primary replica (need 9, "
                 "found 0 to 3)"),
                (["--ranks", "4", "--read", "each", "--primary-replica", "0"],
                 "primary_replica says that others do not read"),
                (["--ranks", "4", "--max-bytes-in-flight", "1"],
                 "max_bytes_in_flight is out of range"),
                ([], "--ranks")]:
            code, out, err = self.belay("plan", "run", *args)
            self.assertEqual((code, out), (2, ""), args)
            self.assertIn(text, err)
        self.assertEqual(self.belay("plan", "none", "--ranks", "1")[0], 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
