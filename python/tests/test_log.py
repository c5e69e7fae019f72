"""Messages through Python's logging."""

import contextlib
import io
import logging
import os
import subprocess
import sys
import threading

from mpi_case import COMM, MpiCase, main

import belay


class Lines(logging.Handler):

  def __init__(self):
    super().__init__()
    self.records = []

  def emit(self, record):
    self.records.append(record)

  def texts(self, level):
    return [record.getMessage() for record in self.records
            if record.levelno == level]


class LogTest(MpiCase):

  def setUp(self):
    super().setUp()
    self.logger = logging.getLogger("belay")
    self.lines = Lines()
    self.logger.addHandler(self.lines)

  def tearDown(self):
    self.logger.removeHandler(self.lines)
    self.logger.setLevel(logging.NOTSET)
    super().tearDown()

  def on_rank_0(self, value):
    return value if self.rank == 0 else []

  def test_levels(self):
    self.logger.setLevel(logging.DEBUG)
    belay.save(COMM, self.run_dir, 0, {"a": 1})
    self.assertEqual(len(self.lines.texts(logging.INFO)),
                     len(self.on_rank_0([1])))
    if self.rank == 0:
      self.assertIn("step_00000000", self.lines.texts(logging.INFO)[0])
      stages = self.lines.texts(logging.DEBUG)
      self.assertTrue(any(line.startswith("stage ") for line in stages), stages)
    self.lines.records.clear()
    self.logger.setLevel(logging.WARNING)
    belay.save(COMM, self.run_dir, 1, {"a": 1})
    self.assertEqual(self.lines.records, [])
    with self.assertRaises(belay.Error) as caught:
      belay.save(COMM, self.run_dir, 1, {"a": 1})
    errors = self.lines.texts(logging.ERROR)
    self.assertEqual(len(errors), len(self.on_rank_0([1])))
    for line in errors:
      self.assertIn(str(caught.exception), line)

  def test_handler_that_raises(self):

    def refuse(record):
      raise ZeroDivisionError(record.levelname)

    self.logger.setLevel(logging.INFO)
    self.logger.addFilter(refuse)
    try:
      hook, sys.unraisablehook = sys.unraisablehook, lambda raised: None
      belay.save(COMM, self.run_dir, 0, {"a": 1})
    finally:
      sys.unraisablehook = hook
      self.logger.removeFilter(refuse)
    self.assertEqual(belay.list_steps(self.run_dir), [0])

  def test_threads(self):
    """The logger is called while other threads of Python run."""
    self.logger.setLevel(logging.DEBUG)
    end = threading.Event()

    def spin():
      while not end.is_set():
        sum(range(100))

    spinner = threading.Thread(target=spin)
    spinner.start()
    with belay.AsyncSaver(COMM) as saver:
      for step in range(3):
        saver.save(self.run_dir, step, {"a": 1})
    end.set()
    spinner.join()
    self.assertEqual(len(self.lines.texts(logging.INFO)),
                     len(self.on_rank_0([1, 2, 3])))

  def printed(self, wanted, program):
    """Returns what a Python of its own prints to stderr."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("OMPI_", "PMIX_", "BELAY_LOG"))}
    if wanted:
      environment["BELAY_LOG"] = wanted
    program = ("import belay, logging\nfrom mpi4py import MPI\n" + program +
               f"\nbelay.save(MPI.COMM_WORLD, {self.run_dir!r}, 0, "
               "{'a': 1}, overwrite=True)")
    done = subprocess.run([sys.executable, "-B", "-c", program],
                          env=environment, capture_output=True, text=True,
                          check=False, timeout=60)
    self.assertEqual(done.returncode, 0, done.stderr)
    return [line for line in done.stderr.splitlines()
            if "step_00000000" in line or "stage" in line]

  def test_environment_variable(self):
    if self.size > 1:
      return  # programs of one rank
    self.assertEqual(self.printed("", ""), [])
    [line] = self.printed("info", "")
    self.assertTrue(line.startswith("belay: info: "), line)
    configured = "logging.basicConfig(level=logging.WARNING)"
    [line] = self.printed("info", configured)
    self.assertTrue(line.startswith("INFO:belay:"), line)

  def test_nothing_is_printed(self):
    with contextlib.redirect_stderr(io.StringIO()) as printed:
      with self.assertRaises(belay.Error):
        belay.restore(COMM, self.run_dir, {"a": 1})
    self.assertEqual(printed.getvalue(), "")


if __name__ == "__main__":
  main()
