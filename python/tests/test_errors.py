"""An error of one rank reaches all, with one text, and nobody waits."""

import logging
import pickle
import threading
import time

import numpy
from mpi_case import COMM, MpiCase, main
from mpi4py import MPI

import belay


class Spoiled(dict):
  """A dict that cannot be read."""

  def __init__(self, error):
    super().__init__(a=1)
    self.error = error

  def keys(self):
    raise self.error


class ErrorTest(MpiCase):

  def setUp(self):
    super().setUp()
    self.last = self.size - 1

  def on_last(self, bad, good):
    return bad if self.rank == self.last else good

  def test_a_step_that_is_no_number(self):
    state = {"a": 1}
    none = "step: need an int from 0 to 2**63 - 1 (found None); only a restore"
    for step, text in ((None, none), (True, "(found True)"),
                       (False, "(found False)"), (1.0, "(found 1.0)"),
                       ("1", "(found '1')"), (2**63, "(found 9223")):
      self.assert_fails("INVALID_ARGUMENT", text, belay.save, COMM,
                        self.run_dir, step, state)
    belay.save(COMM, self.run_dir, 1, state)
    self.assert_fails("INVALID_ARGUMENT", "(found True)", belay.restore, COMM,
                      self.run_dir, state, step=True)
    self.assertEqual(belay.restore(COMM, self.run_dir, state, step=None).step, 1)
    with belay.CheckpointManager(COMM, self.run_dir) as manager:
      self.assert_fails("INVALID_ARGUMENT", "(found True)", manager.save, True,
                        state)
      self.assert_fails("INVALID_ARGUMENT", none, manager.delete, None)
      manager.save(None, state)
      self.assertEqual(manager.latest_step(), 2)

  def test_swapped_arguments(self):
    state = {"a": numpy.zeros(2)}
    path = "directory: need a str, bytes or os.PathLike (found "
    cases = [
        (belay.save, (1, self.run_dir, state), path + "1)"),
        (belay.save, (state, 1, self.run_dir), path + "a value of type dict)"),
        (belay.save, (self.run_dir, state, 1),
         "step: need an int from 0 to 2**63 - 1 (found a value of type dict)"),
        (belay.restore, (state, self.run_dir), path + "a value of type dict)"),
        (belay.restore_latest, (state, self.run_dir), path),
    ]
    for call, arguments, text in cases:
      self.assert_fails("INVALID_ARGUMENT", text, call, COMM, *arguments)

  def test_misspelt_option(self):
    for name, meant in (("overwrit", "overwrite"), ("durabel", "durable"),
                        ("read_bak", "read_back")):
      self.assert_fails("INVALID_ARGUMENT", f'; close to it: "{meant}"',
                        belay.save, COMM, self.run_dir, 0, {"a": 1},
                        **{name: True})
    self.assert_fails("INVALID_ARGUMENT", '; close to it: "max_to_keep"',
                      belay.CheckpointManager, COMM, self.run_dir,
                      max_to_kep=3)

  def test_exception_of_python_on_one_rank(self):
    state = {"a": self.on_last(Spoiled(ZeroDivisionError("mine")), {"a": 1})}
    error = self.assert_fails("INVALID_ARGUMENT", "ZeroDivisionError: mine",
                              belay.save, COMM, self.run_dir, 0, state)
    self.assertTrue(str(error).endswith(
        f"[rank {self.last} of {self.size}]"), str(error))
    cause = error.__cause__
    self.assertEqual(type(cause), self.on_last(ZeroDivisionError, type(None)))

  def test_callback_that_raises(self):
    """It is called on rank 0, also by a save in the background."""

    def refuse(directory, step):
      raise ZeroDivisionError("mine")

    error = self.assert_fails("INVALID_ARGUMENT", "ZeroDivisionError: mine",
                              belay.save, COMM, self.run_dir, 0, {"a": 1},
                              before_commit=refuse)
    cause = ZeroDivisionError if self.rank == 0 else type(None)
    self.assertIs(type(error.__cause__), cause)
    with belay.AsyncSaver(COMM) as saver:
      pending = saver.save(self.run_dir, 1, {"a": 1}, before_commit=refuse)
      error = self.assert_fails("INVALID_ARGUMENT", "ZeroDivisionError: mine",
                                pending.wait)
      self.assertIs(type(error.__cause__), cause)
    self.assertEqual(belay.list_steps(self.run_dir), [])

  def test_array_that_cannot_be_filled_on_one_rank(self):
    """A copy of an array is copied back after the collective restore."""

    class Stubborn(numpy.ndarray):

      def __setitem__(self, index, value):
        raise OSError("stubborn")

    belay.save(COMM, self.run_dir, 0, {"a": numpy.arange(4.0)})
    backwards = numpy.zeros(4)[::-1]
    into = self.on_last(backwards.view(Stubborn), backwards)
    self.assert_fails("INVALID_ARGUMENT", "OSError: stubborn", belay.restore,
                      COMM, self.run_dir, {"a": into})

  def test_many_failing_managers_and_savers(self):
    for _ in range(100):
      with self.assertRaises(belay.Error):
        belay.CheckpointManager(COMM, self.run_dir, loud=True)
      with self.assertRaises(belay.Error):
        belay.AsyncSaver(COMM, loud=True)
      belay.AsyncSaver(COMM).close()

  def test_wrong_arguments_on_one_rank(self):
    wrong = [
        dict(step=self.on_last("1", 1)), dict(step=self.on_last(1.5, 1)),
        dict(directory=self.on_last(7, self.run_dir)),
        dict(durable=self.on_last("no", True)),
        dict(transfer=self.on_last("fast", "auto")),
        dict(args=self.on_last([], {"a": {}})),
        dict(deadline_seconds=self.on_last("x", 9.0)),
    ]
    for arguments in wrong:
      call = dict(comm=COMM, directory=self.run_dir, step=0, state={"a": 1})
      self.assert_fails("INVALID_ARGUMENT", "", belay.save,
                        **{**call, **arguments})
      if "directory" in arguments or "deadline_seconds" in arguments:
        call = dict(comm=COMM, directory=self.run_dir, state={"a": 1})
        self.assert_fails("INVALID_ARGUMENT", "", belay.restore,
                          **{**call, **arguments})

  def test_options_say_what_they_take(self):
    wrong = [
        (dict(durable=1), "durable", "True or False", "1"),
        (dict(max_bytes_in_flight=2**63), "max_bytes_in_flight",
         "an int from -2**63 to 2**63 - 1", str(2**63)),
        (dict(max_bytes_in_flight="1"), "max_bytes_in_flight", "an int", "'1'"),
        (dict(metadata={1: 2}), "metadata", "a dict of str to str", "{1: 2}"),
        (dict(deadline_seconds="x"), "deadline_seconds", "a float", "'x'"),
        (dict(transfer="fast"), "transfer", 'one of "collective"', "'fast'"),
        (dict(args=[1]), "args", "a dict of str to dicts", "[1]"),
        (dict(args={"a": 1}), "args['a']", "a dict", "1"),
        (dict(args={"a": {"deflate": "x"}}), "deflate", "an int", "'x'"),
        (dict(args={"a": {"write_chunk_shape": 5}}), "write_chunk_shape",
         "a tuple of int", "5"),
        (dict(args={"a": {"dtype": "f99"}}), "dtype", "the name of a dtype",
         "'f99'")]
    for options, name, needed, found in wrong:
      error = self.assert_fails("INVALID_ARGUMENT", f"option {name}: ",
                                belay.save, COMM, self.run_dir, 0, {"a": 1},
                                **options)
      self.assertIn(f"need {needed}", str(error))
      self.assertIn(f"found {found})", str(error))
    for step in (2**63, -1, "1", 1.5):
      error = self.assert_fails("INVALID_ARGUMENT", "step", belay.save, COMM,
                                self.run_dir, step, {"a": 1})
      self.assertIn(f"found {step!r})", str(error))
    with self.assertRaisesRegex(belay.Error, "option async_save: unusable"):
      belay.CheckpointManager(COMM, self.run_dir, async_save=3)

  def test_options_have_their_names_in_python(self):
    frozen = {"a": numpy.zeros(3)}
    belay.save(COMM, self.run_dir, 1, frozen)
    self.assert_fails("ALREADY_EXISTS", "or pass overwrite=True", belay.save,
                      COMM, self.run_dir, 1, {"a": 1})
    self.assert_fails("INVALID_ARGUMENT",
                      "the newest one is step=None", belay.restore,
                      COMM, self.run_dir, frozen, step=-1)
    self.assert_fails("INVALID_ARGUMENT", 'array_layout="canonical" stores '
                      'every array contiguously: use "auto"', belay.save, COMM,
                      self.run_dir, 2, frozen, array_layout="canonical",
                      args={"a": {"deflate": 1}})
    if self.size > 1:
      self.assert_fails("INVALID_ARGUMENT", "is saved by belay.Piece, what "
                        "each rank has of its own by belay.PerRank",
                        belay.save, COMM, self.run_dir, 2, {"a": self.rank})
    if self.rank == 0:
      belay.save(MPI.COMM_SELF, self.run_dir, 3, {"a": belay.PerRank(1)})
    COMM.Barrier()
    if self.size > 1:
      self.assert_fails("FAILED_PRECONDITION", 'other_ranks="first" or '
                        'other_ranks="even"',
                        belay.restore, COMM, self.run_dir,
                        {"a": belay.PerRank(0)})
    with belay.CheckpointManager(COMM, self.run_dir) as manager:
      manager.restore({"a": numpy.zeros(3)}, step=1)
      self.assert_fails("FAILED_PRECONDITION",
                        'pass newer_steps="set_aside" or "delete" to go on',
                        manager.save, 2, {"a": 1})

  def test_error_of_belay(self):
    belay.save(COMM, self.run_dir, 1, {"a": numpy.zeros(3)})
    self.assert_fails("ALREADY_EXISTS", "step_00000001", belay.save, COMM,
                      self.run_dir, 1, {"a": 1})
    self.assert_fails("NOT_FOUND", "b", belay.restore, COMM, self.run_dir,
                      {"b": 0})
    self.assert_fails("NOT_FOUND", "", belay.restore, COMM,
                      self.dir + "/none", {"b": 0})
    self.assert_fails("INVALID_ARGUMENT", "unknown option 'fast'", belay.save,
                      COMM, self.run_dir, 2, {"a": 1}, fast=True)
    if self.size > 1:
      self.assert_fails("INVALID_ARGUMENT", "replicas of \"a\" differ",
                        belay.save, COMM, self.run_dir, 2, {"a": self.rank})
    frozen = numpy.zeros(3)
    frozen.flags.writeable = self.rank != self.last
    self.assert_fails("INVALID_ARGUMENT", "read-only", belay.restore, COMM,
                      self.run_dir, {"a": frozen})

  def test_interrupt_stays_what_it_is(self):
    state = {"a": self.on_last(Spoiled(KeyboardInterrupt()), {"a": 1})}
    with self.assertRaises(self.on_last(KeyboardInterrupt, belay.Error)) as one:
      belay.save(COMM, self.run_dir, 0, state)
    if self.rank != self.last:
      self.assertEqual(one.exception.code, "CANCELLED")

  def test_callbacks(self):
    seen = []
    belay.save(COMM, self.run_dir, 4, {"a": 1},
               before_commit=lambda *args: seen.append(args),
               after_commit=lambda result: seen.append(result.step))
    self.assertEqual(len(seen), 2 if self.rank == 0 else 0)
    if seen:
      self.assertIn("step_00000004", seen[0][0])
      self.assertEqual((seen[0][1], seen[1]), (4, 4))

    def refuse(directory, step):
      raise ValueError(f"no step {step}")

    self.assert_fails("INVALID_ARGUMENT", "ValueError: no step 5", belay.save,
                      COMM, self.run_dir, 5, {"a": 1}, before_commit=refuse)
    self.assertEqual(belay.list_steps(self.run_dir), [4])

  def test_interrupts_of_callbacks(self):
    """Are raised on their rank, after the ranks have agreed."""

    def interrupt(*args):
      raise KeyboardInterrupt

    for step, name in enumerate(("before_commit", "after_commit")):
      fails = name == "before_commit"
      expected = KeyboardInterrupt if self.rank == 0 else belay.Error
      call = lambda: belay.save(COMM, self.run_dir, step, {"a": 1},
                                **{name: interrupt})
      if fails or self.rank == 0:
        with self.assertRaises(expected):
          call()
      else:
        call()
      COMM.Barrier()
      self.assertEqual(belay.list_steps(self.run_dir), [] if fails else [1])

    def partition(shape, dtype, axis):
      if self.rank == self.last:
        raise KeyboardInterrupt
      return [shape[axis]]

    with self.assertRaises(self.on_last(KeyboardInterrupt, belay.Error)):
      belay.ShardedVariable(COMM, "v", "f4", (4,), partition)

    class Handler(logging.Handler):
      emit = interrupt

    logger, handler = logging.getLogger("belay"), Handler()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
      with self.assertRaises(
          KeyboardInterrupt if self.rank == 0 else belay.Error):
        belay.restore(COMM, self.run_dir, {"a": 0})
    finally:
      logger.removeHandler(handler)
      logger.setLevel(logging.NOTSET)
    belay.restore(COMM, self.run_dir, {"a": 0})

  def test_callbacks_are_functions(self):
    for name in ("before_commit", "after_commit"):
      self.assert_fails("INVALID_ARGUMENT", f"option {name}: need a function",
                        belay.save, COMM, self.run_dir, 0, {"a": 1}, **{name: 5})

  def test_one_call_at_a_time(self):
    """A callback that saves as well would wait for ranks that never come."""

    def again(directory, step):
      belay.save(COMM, self.run_dir, 7, {"a": 1})

    self.assert_fails("FAILED_PRECONDITION", "in a call", belay.save, COMM,
                      self.run_dir, 0, {"a": 1}, before_commit=again)
    with belay.AsyncSaver(COMM) as saver:
      pending = saver.save(self.run_dir, 1, {"a": 1},
                           before_commit=lambda *_: saver.poll())
      self.assert_fails("FAILED_PRECONDITION", "in a call", pending.wait)
    with belay.CheckpointManager(COMM, self.run_dir,
                                 before_commit=lambda *_: manager.reload()
                                 ) as manager:
      self.assert_fails("FAILED_PRECONDITION", "in a call", manager.save, 2,
                        {"a": 1})
    belay.save(COMM, self.run_dir, 3, {"a": 1})

  def test_no_communicator(self):
    with self.assertRaises(TypeError):
      belay.save(None, self.run_dir, 0, {"a": 1})
    with self.assertRaises(belay.Error):
      belay.save(MPI.COMM_NULL, self.run_dir, 0, {"a": 1})

  def test_error_is_an_exception_like_others(self):
    error = pickle.loads(pickle.dumps(belay.Error("text", "NOT_FOUND")))
    self.assertEqual((str(error), error.code), ("text", "NOT_FOUND"))
    self.assertIsInstance(error, RuntimeError)

  def test_other_threads_run_meanwhile(self):
    ticks = []
    stop = threading.Event()

    def tick():
      while not stop.wait(0.001):
        ticks.append(1)

    def hold(directory, step):
      stop.wait(0.3)  # in rank 0's save; the others wait in theirs

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    belay.save(COMM, self.run_dir, 0, {"a": 1}, before_commit=hold)
    self.assertGreaterEqual(time.monotonic() - begin, 0.2)
    counted = len(ticks)
    stop.set()
    thread.join()
    self.assertGreater(counted, 10)


if __name__ == "__main__":
  main()
