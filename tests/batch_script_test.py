"""What slurm/train.sbatch asks of Slurm, which here is two scripts of the test,
and debug.sbatch.
With a real one: slurm/testcluster/tests.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(sys.argv[1])
TRAIN = SCRIPTS / "train.sbatch"

# Each notes how it was called, and then does what its file says.
STUB = """#!/bin/bash
echo "${0##*/} $*" >>"${0%/*}/calls"
source "$0.does"
"""
JOB = {"SLURM_JOB_ID": "42"}


class BatchScript(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        (self.dir / "calls").touch()
        self.stub("squeue", "echo RUNNING None")
        self.stub("scontrol", "")
        self.stub("sleep", "")

    def stub(self, name, does):
        path = self.dir / name
        path.write_text(STUB)
        path.chmod(0o755)
        (self.dir / (name + ".does")).write_text(does)

    def run_script(self, program, variables, script=TRAIN):
        """Returns exit code and output; `program` is of bash."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("SLURM_", "SQUEUE_"))}
        done = subprocess.run(
            ["bash", script, "-c", program], text=True, timeout=30,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=kept | {"PATH": f"{self.dir}:{kept['PATH']}",
                        "LAUNCH": "bash"} | variables)
        return done.returncode, done.stdout

    def calls(self, name):
        lines = (self.dir / "calls").read_text().splitlines()
        return [line for line in lines if (line + " ").startswith(name + " ")]

    def test_a_job(self):
        code, output = self.run_script("exit 85", JOB)
        self.assertEqual(code, 85)
        self.assertIn("stopped: back into the queue", output)
        self.assertEqual(self.calls("scontrol"), ["scontrol requeue 42"])
        self.assertEqual(len(self.calls("squeue")), 1)
        self.assertIn(" -j 42 ", self.calls("squeue")[0])

    def test_a_task_of_an_array(self):
        self.run_script("exit 85", JOB | {"SLURM_ARRAY_JOB_ID": "40",
                                          "SLURM_ARRAY_TASK_ID": "2"})
        self.assertEqual(self.calls("scontrol"), ["scontrol requeue 42"])

    def test_the_last_task_of_an_array_is_not_the_array(self):
        self.run_script("exit 85", JOB | {"SLURM_ARRAY_JOB_ID": "42",
                                          "SLURM_ARRAY_TASK_ID": "3"})
        self.assertEqual(self.calls("scontrol"), ["scontrol requeue 42_3"])
        self.assertIn(" -j 42_3 ", self.calls("squeue")[0])

    def test_a_job_that_slurm_has_ended(self):
        self.stub("squeue", "echo COMPLETING None")
        _, output = self.run_script("exit 85", JOB)
        self.assertIn("ended by Slurm", output)
        self.assertEqual(self.calls("scontrol"), [])

    def test_a_controller_that_answers_late(self):
        self.stub("squeue", 'grep -q sleep "${0%/*}/calls" && echo RUNNING')
        _, output = self.run_script("exit 85", JOB)
        self.assertEqual(self.calls("scontrol"), ["scontrol requeue 42"])
        self.assertNotIn("ended by Slurm", output)
        self.assertNotIn("could not", output)

    def test_a_controller_that_goes_before_it_is_asked_to_requeue(self):
        self.stub("squeue", '(($(grep -c squeue "${0%/*}/calls") != 2)) &&'
                            ' echo RUNNING')
        self.stub("scontrol", '(($(grep -c scontrol "${0%/*}/calls") == 2))')
        _, output = self.run_script("exit 85", JOB)
        self.assertEqual(len(self.calls("scontrol")), 2)
        self.assertNotIn("refused", output)
        self.assertNotIn("could not", output)

    def test_no_answer(self):
        for does in "exit 1", "":
            with self.subTest(does):
                self.stub("squeue", does)
                (self.dir / "calls").write_text("")
                code, output = self.run_script("exit 85", JOB)
                self.assertEqual(code, 85)
                self.assertIn("could not ask Slurm", output)
                self.assertNotIn("ended by Slurm", output)
                self.assertEqual(self.calls("scontrol"), [])
                # For a minute.
                self.assertEqual(self.calls("sleep 10"), ["sleep 10"] * 6)

    def test_no_such_command(self):
        (self.dir / "scontrol").write_text("#!/no/such/shell\n")
        _, output = self.run_script("exit 85", JOB)
        self.assertIn("could not ask Slurm", output)
        self.assertNotIn("refused", output)

    def test_a_refusal(self):
        self.stub("scontrol", "exit 1")
        _, output = self.run_script("exit 85", JOB)
        self.assertIn("Slurm refused", output)
        self.assertEqual(len(self.calls("scontrol")), 1)

    def test_variables_of_squeue_hide_nothing(self):
        self.stub("squeue", "[[ -v SQUEUE_STATES ]] || echo RUNNING")
        self.run_script("exit 85", JOB | {"SQUEUE_STATES": "PENDING"})
        self.assertEqual(self.calls("scontrol"), ["scontrol requeue 42"])

    # The launcher signals the script, as Slurm would, and ends in the same
    # moment, in which bash must not lose its exit code.
    SIGNAL = "trap '' USR1; kill -USR1 $PPID; exit "

    def test_a_crash_after_a_signal_counts_as_one(self):
        for code in 1, 138:
            for restarts, calls in ("1", ["scontrol requeue 42"]), ("2", []):
                with self.subTest((code, restarts)):
                    (self.dir / "calls").write_text("")
                    found, output = self.run_script(
                        self.SIGNAL + str(code),
                        JOB | {"MAX_RESTARTS": "2",
                               "SLURM_RESTART_COUNT": restarts})
                    self.assertEqual(found, code)
                    self.assertIn(f"ended with {code} after USR1", output)
                    self.assertEqual(self.calls("scontrol"), calls)

    def test_a_stop_after_a_signal_does_not_count(self):
        self.run_script(self.SIGNAL + "85", JOB | {"MAX_RESTARTS": "2",
                                                   "SLURM_RESTART_COUNT": "2"})
        self.assertEqual(self.calls("scontrol"), ["scontrol requeue 42"])

    def test_an_own_code_without_a_signal(self):
        code, _ = self.run_script("exit 3", JOB)
        self.assertEqual(code, 3)
        self.assertEqual(self.calls("scontrol"), [])

    def test_a_signal_before_there_is_a_launcher(self):
        self.stub("sleep", '/bin/sleep "$@"')
        # As early as can be: the first command after the traps.
        script = self.dir / "train.sbatch"
        script.write_text(TRAIN.read_text().replace(
            'say "start ', 'kill -USR1 $$; say "start '))
        code, _ = self.run_script(
            "trap 'exit 85' USR1; read -t 5 <> <(:); exit 0", JOB, script)
        self.assertIn(code, (85, 138))

    def test_counts(self):
        for restarts, most, is_started, says in (
                ("08", "20", True, ""),
                ("08", "008", False, "not started again"),
                ("x", "20", False, "SLURM_RESTART_COUNT=x is no count"),
                ("0", "never", False, "MAX_RESTARTS=never is no count"),
                ("-1", "20", False, "SLURM_RESTART_COUNT=-1 is no count")):
            with self.subTest((restarts, most)):
                (self.dir / "calls").write_text("")
                code, output = self.run_script(
                    "exit 75", JOB | {"SLURM_RESTART_COUNT": restarts,
                                      "MAX_RESTARTS": most})
                self.assertEqual(code, 75)
                self.assertIn(says, output)
                self.assertEqual(len(self.calls("scontrol")), is_started)

    def test_an_own_code_of_a_preempted_job(self):
        for time, calls in ("N/A", []), ("2026-11-22T20:14:38",
                                         ["scontrol requeue 42"]):
            (self.dir / "calls").write_text("")
            self.stub("squeue", f"""[[ "$*" == *PreemptTime* ]] &&
                      echo {time} || echo RUNNING""")
            code, _ = self.run_script("exit 1", JOB)
            self.assertEqual(code, 1)
            self.assertEqual(self.calls("scontrol"), calls)


class Chain(unittest.TestCase):

    def run_script(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            sbatch = pathlib.Path(folder) / "sbatch"
            sbatch.write_text('#!/bin/bash\necho "$*" >>"$0.calls"\necho 7\n')
            sbatch.chmod(0o755)
            done = subprocess.run(
                ["bash", SCRIPTS / "chain.sh", "2", *arguments], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"})
            calls = pathlib.Path(f"{sbatch}.calls")
            return done.returncode, calls.read_text() if calls.exists() else ""

    def test_each_job_depends_on_the_one_before(self):
        code, calls = self.run_script("-N", "2", str(TRAIN), "./train", "-d", "x")
        self.assertEqual(code, 0)
        self.assertEqual(calls.count("--dependency=afterany:7 -N 2 "), 1)

    def test_another_dependency_is_refused(self):
        for option in ["--dependency=afterok:3"], ["--dependency", "x"], \
                ["-d", "afterok:3"], ["-dafterok:3"]:
            code, calls = self.run_script(*option, str(TRAIN), "./train")
            self.assertEqual((code, calls), (2, ""), option)


class DebugScript(unittest.TestCase):

    def run_script(self, program, **variables):
        done = subprocess.run(
            ["bash", SCRIPTS / "debug.sbatch", "bash", "-c", program],
            text=True, timeout=30, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"LAUNCH": "env", "PMIX_RANK": "0",
                              "RUN": "/none"} | variables)
        return done.returncode, done.stdout

    def test_a_run_without_checkpoints(self):
        code, output = self.run_script("exit 0", BELAY="false")
        self.assertEqual(code, 0, output)

    def test_tells_variables_but_no_secret(self):
        _, output = self.run_script("exit 0", SLURM_JWT="secret",
                                    SLURM_JOB_ID="42")
        self.assertIn("\nSLURM_JOB_ID=42\n", output)
        self.assertNotIn("secret", output)

    def test_two_signals(self):
        code, output = self.run_script(
            "trap '' USR1; for i in 1 2; do kill -USR1 $PPID; sleep 0.3; done;"
            "echo the end; exit 85")
        self.assertEqual(code, 85, output)
        self.assertIn("the end\n-- exit code 85;", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
