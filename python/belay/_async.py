"""Saves in the background."""

from belay import _core
from belay._errors import Error


class PendingSave:
  """A save that has begun; `AsyncSaver.save` returns it.

  Attributes
  ----------
  path : str
      The directory of the step, once it is committed.
  step : int
  staged_bytes : int
      What this rank has copied.
  note : str
      Why it could not be saved in the background, if so.
  """

  def __init__(self, saver, fields):
    self.path = fields["path"]
    self.step = fields["step"]
    self.staged_bytes = fields["staged_bytes"]
    self.note = fields["note"]
    self._saver = saver
    self._result = fields["saved"]
    self._error = None

  @property
  def done(self):
    """Whether it is known to have ended, well or not. Local."""
    return self._result is not None or self._error is not None

  def poll(self):
    """Return the result if the save has ended, else None. Collective.

    Does not wait for the disk. Call it in each step, or `AsyncSaver.poll`: it
    is what lets rank 0 commit.

    Raises
    ------
    Error
        If the save has failed; on all ranks alike.
    """
    if not self.done:
      self._saver.poll()
    return self._outcome()

  def wait(self):
    """Wait for the end of the save and return its result. Collective.

    Raises
    ------
    Error
        If the save has failed; on all ranks alike.
    """
    if not self.done:
      self._saver.wait()
    return self._outcome()

  def _outcome(self):
    if self._error is not None:
      raise self._error
    return self._result

  def __repr__(self):
    state = "done" if self.done else "under way"
    return f"<belay.PendingSave of step {self.step}, {state}>"


class AsyncSaver:
  """Saves in the background, at most one at a time. Creating it is collective.

  `save` copies the values and returns; a thread writes them, without the
  interpreter's lock. A context manager closes itself; after an exception it
  leaves what is under way to MPI_Finalize.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
  max_staging_bytes : int, optional
      The most bytes that a rank copies. `save` writes the rest itself.
  initial_staging_bytes : int, optional
      Bytes of this rank for which memory is taken at once, so that the first
      save need not. The ranks may give different numbers.
  max_bytes_per_second : int, optional
      The most that the thread writes.
  snapshot : {"in_call", "lazy"}, optional
      "lazy" lets the thread copy the values while the program goes on: they
      must not change before `wait_for_snapshot` returns.
  deadline_seconds : float, optional
      How long creating and closing it wait for other ranks. The default is 600.

  Examples
  --------
  >>> with belay.AsyncSaver(comm) as saver:
  ...   for step in range(1000):
  ...     train(state)
  ...     if step % 100 == 0:
  ...       saver.save("run", step, state)
  ...     saver.poll()
  """

  def __init__(self, comm, **options):
    self._pending = None  # the save whose end is not known yet
    self._doubt = None  # an error that may be that of this save
    self._saver = _core.StateSaver(comm, options)

  def save(self, directory, step, state, **options):
    """Begin to save the state. Collective.

    Waits for the save before. The arguments are those of `belay.save`.

    Returns
    -------
    PendingSave

    Raises
    ------
    Error
        On all ranks alike; also that of the save before, if it has failed.
        Nothing is begun then.
    """
    try:
      fields = self._saver.save(directory, step, state, options)
    except Error as error:
      # Either the save before has failed, or this one cannot begin. The next
      # call says which: it has the result of the one before, or none.
      self._doubt = error
      raise
    finished = fields["finished"]
    self._end(finished, self._doubt if finished is None else None)
    pending = PendingSave(self, fields)
    self._pending = None if pending.done else pending
    return pending

  def wait_for_snapshot(self):
    """Wait until the values of the save are copied. Collective."""
    self._ending(self._saver.wait_for_snapshot, ends=False)

  def poll(self):
    """Return the result of the save if it has ended, else None. Collective."""
    return self._ending(self._saver.poll)

  def wait(self):
    """Wait for the save and return its result; None if there is none.

    Collective.
    """
    return self._ending(self._saver.wait)

  @property
  def is_pending(self):
    """Whether a save is under way. Local."""
    return self._saver.is_pending()

  def close(self):
    """Wait for the save and free the memory. Collective.

    Calling it again does nothing.
    """
    if self._pending is not None:
      self.wait()
    self._saver.close()

  def _ending(self, call, ends=True):
    try:
      result = call()
    except Error as error:
      self._end(error=error)
      raise
    if ends:
      self._end(result)
    return result

  def _end(self, result=None, error=None):
    """Tells the save that is under way how it has ended, if it has."""
    if result is None and error is None and not self._saver.is_pending():
      error = self._doubt
    if result is None and error is None:
      return
    self._doubt = None
    if self._pending is not None:
      self._pending._result = result
      self._pending._error = error
      self._pending = None

  def __enter__(self):
    return self

  def __exit__(self, kind, value, traceback):
    if kind is None:
      self.close()
    else:
      self._saver.abandon()
