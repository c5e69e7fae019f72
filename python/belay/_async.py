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
      Bytes that this rank has copied.
  note : str
      Why the step could not be saved in the background, if so.
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
    """Whether the save is known to have ended, also with an error. Local."""
    return self._result is not None or self._error is not None

  def poll(self):
    """Return the result if the save has ended, else None. Collective.

    Does not wait for the disk. Call this or `AsyncSaver.poll` in each step, so
    that rank 0 can commit.

    Raises
    ------
    Error
        If the save has failed. Raised on all ranks.
    """
    if not self.done:
      self._saver.poll()
    return self._outcome()

  def wait(self):
    """Wait for the end of the save and return its result. Collective.

    Raises
    ------
    Error
        If the save has failed. Raised on all ranks.
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
  interpreter's lock. As a context manager, it closes itself; after an exception
  it leaves a save in progress to MPI_Finalize.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
  max_staging_bytes : int, optional
      Maximum number of bytes that a rank copies. `save` writes the rest itself.
  initial_staging_bytes : int, optional
      Number of bytes that this rank allocates at the start, so that the first
      save need not. May differ between ranks.
  max_bytes_per_second : int, optional
      Maximum rate at which the thread writes.
  snapshot : {"in_call", "lazy"}, optional
      "lazy" lets the thread copy the values while the program continues; they
      must not change before `wait_for_snapshot` returns.
  deadline_seconds : float, optional
      How long creating and closing the saver wait for other ranks. The default
      is 600.

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
    self._doubt = None  # an error that may belong to this save
    self._saver = _core.StateSaver(comm, options)

  def save(self, directory, step, state, **options):
    """Begin to save the state. Collective.

    Waits for the previous save first. The arguments are those of `belay.save`.

    Returns
    -------
    PendingSave

    Raises
    ------
    Error
        Raised on all ranks; also the error of the previous save, if it has
        failed. Then no save is begun.
    """
    try:
      fields = self._saver.save(directory, step, state, options)
    except Error as error:
      # Either the previous save has failed, or this one cannot begin. The next
      # call tells which: it returns the result of the previous save, or none.
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
    """Whether a save is in progress. Local."""
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
    """Sets the outcome of the save in progress, if it has ended."""
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
