"""What the tests share: unittest on all ranks of mpirun.

A rank that fails prints why and ends all others, which may wait for it.
"""

import os
import shutil
import sys
import tempfile
import traceback
import unittest

import numpy
from mpi4py import MPI

import belay

COMM = MPI.COMM_WORLD


class MpiCase(unittest.TestCase):
  """A test in a new directory that all ranks share, `self.dir`."""

  def setUp(self):
    name = tempfile.mkdtemp(prefix="belay_") if COMM.rank == 0 else None
    self.dir = COMM.bcast(name)
    self.run_dir = os.path.join(self.dir, "run")
    self.rank, self.size = COMM.rank, COMM.size

  def tearDown(self):
    COMM.Barrier()
    if COMM.rank == 0:
      shutil.rmtree(self.dir)

  def assert_equal_arrays(self, found, expected):
    """Asserts that dtype, shape and all bytes are equal."""
    found, expected = numpy.asarray(found), numpy.asarray(expected)
    self.assertEqual(found.dtype, expected.dtype)
    self.assertEqual(found.shape, expected.shape)
    self.assertEqual(found.tobytes(), expected.tobytes())

  def assert_fails(self, code, text, call, *args, **options):
    """Asserts that all ranks of COMM get one error; returns this rank's."""
    with self.assertRaises(belay.Error) as caught:
      call(*args, **options)
    error = caught.exception
    self.assertEqual(error.code, code, str(error))
    self.assertIn(text, str(error))
    all_errors = COMM.allgather((error.code, str(error)))
    self.assertEqual(len(set(all_errors)), 1, all_errors)
    return error


class _Result(unittest.TextTestResult):

  def _end_all(self, test, error):
    print(f"rank {COMM.rank} of {COMM.size}: {test}", file=sys.stderr)
    traceback.print_exception(*error, file=sys.stderr)
    sys.stderr.flush()
    COMM.Abort(1)

  addError = addFailure = _end_all

  def addSubTest(self, test, subtest, error):
    if error is not None:
      self._end_all(subtest, error)


def main():
  """Runs the tests of the calling file."""
  quiet = COMM.rank != 0
  stream = open(os.devnull, "w") if quiet else sys.stderr
  runner = unittest.TextTestRunner(stream=stream, resultclass=_Result,
                                   verbosity=1)
  unittest.main(module="__main__", testRunner=runner)
