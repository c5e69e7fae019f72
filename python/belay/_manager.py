"""Numbers the checkpoints of a run and decides which to save and to keep."""

from belay import _core, _log


class CheckpointManager:
  """The checkpoints of a run. Creating one is collective.

  At most one writing manager may be open per directory and prefix, across all
  jobs. As a context manager, it closes itself; after an exception it frees only
  what it can free without the other ranks.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
  directory : str or os.PathLike
      Created if its parent exists.
  save_interval_steps : int, optional
      Save the first step and multiples of this. The default is 1.
  save_on_steps : list of int, optional
      Save these as well.
  save_first_step : bool, optional
  mtbf_seconds, overhead_budget : float, optional
      Derive the interval from the mean time between failures of the job.
  max_to_keep : int, optional
      Keep the newest steps, or with `best_metric` the best. The default is all.
  keep_period : int, optional
      Keep multiples of this.
  keep_time_interval, keep_checkpoint_every_n_hours : float, optional
  best_metric : str, optional
      The name of the metric that rates steps.
  best_mode : {"max", "min"}, optional
  keep_checkpoints_without_metrics : bool, optional
  async_save : bool or dict, optional
      Save in the background. A dict has the options of `AsyncSaver`.
  tolerated_failures : int, optional
      Number of consecutive saves that may fail because of the file system.
  stop_signals : list, optional
      Signals that ask the job to stop, by number or name, such as
      ``[signal.SIGUSR1]`` or ``["SIGUSR1"]``.
  stop_at_time_limit : bool, optional
  time_limit_poll_seconds, end_time, final_save_margin : float, optional
  read_only, remove_leftovers : bool, optional
  restore_match : {"existing_objects", "anything", "nontrivial", "consumed"}
  newer_steps : {"refuse", "set_aside", "delete"}, optional
  prefix : str, optional
  **options
      Those of `save`, for all saves.

  Examples
  --------
  >>> with belay.CheckpointManager(comm, "run", max_to_keep=3) as manager:
  ...   restored = manager.restore(state)
  ...   state = restored.state
  ...   for step in range((restored.step or 0) + 1, 1000):
  ...     train(state)
  ...     if manager.should_save(step):
  ...       manager.save(step, state)
  """

  def __init__(self, comm, directory, **options):
    self._manager = _core.StateManager(comm, directory, options)

  def should_save(self, step=None):
    """Return whether to call `save` for this step now. Collective.

    Call it in each step: it also distributes signals to all ranks, and commits
    saves in the background.
    """
    return self._manager.should_save(step)

  def save(self, step, state, **options):
    """Save a step if the rules require it, and delete others. Collective.

    Parameters
    ----------
    step : int or None
        None takes the number after the last one.
    state : dict, list or tuple
        As for `belay.save`.
    metrics : dict of str to float, optional
        Metrics that rate the step. Only those of rank 0 are used.
    force : bool, optional
        Save regardless of the rules.
    tolerate_failure : bool, optional
    metadata : dict of str to str, optional

    Returns
    -------
    ManagedSave

    Raises
    ------
    Error
        Raised on all ranks. Earlier steps are untouched.
    """
    return self._manager.save(step, state, options)

  def restore(self, state, *, step=None, **options):
    """Restore a step, or the newest that can be restored. Collective.

    Parameters
    ----------
    state, options
        As for `belay.restore`.
    step : int, optional

    Returns
    -------
    ManagedRestore
        Its ``step`` is None if there is no step, which is not an error.

    Raises
    ------
    Error
        Raised on all ranks.
    """
    return self._manager.restore(state, step, options)

  def steps(self):
    """Return the committed steps, ascending. Local."""
    return self._manager.steps()

  def latest_step(self):
    """Return the newest step that is not known to be damaged. Local."""
    return self._manager.latest_step()

  def best_step(self):
    """Return the best step by `best_metric`, else the latest. Local."""
    return self._manager.best_step()

  def step_metrics(self, step):
    """Return the metrics that were saved with a step. Local."""
    return self._manager.step_metrics(step)

  def step_path(self, step):
    """Return the directory of a step. Local."""
    return self._manager.step_path(step)

  @property
  def notes(self):
    """Notes recorded since the manager was created, as a list of str."""
    return self._manager.notes()

  def should_stop(self):
    """Return why the job must stop, such as "SIGUSR1 on rank 2", or None. Local.

    After the next save, or after the manager's block, end the program with
    ``sys.exit(belay.STOPPED_EXIT_CODE)``, so that its batch script starts it
    again.
    """
    return self._manager.should_stop()

  def reload(self):
    """List the steps on disk again. Collective."""
    self._manager.reload()

  def delete(self, step):
    """Delete a step. Collective."""
    self._manager.delete(step)

  def wait_for_snapshot(self):
    """Wait until a save in the background has copied all values. Collective.

    With ``async_save={"snapshot": "lazy"}``, call it before values change.
    """
    self._manager.wait_for_snapshot()

  def wait(self):
    """Wait for the save in the background. Collective.

    Returns
    -------
    ManagedSave or None
    """
    return self._manager.wait()

  def close(self):
    """Wait for the save in the background and release the run. Collective.

    Calling it again does nothing.
    """
    self._manager.close()

  def __enter__(self):
    return self

  def __exit__(self, kind, value, traceback):
    if kind is None:
      self.close()
    else:
      self._manager.abandon()


class Run:
  """A run in one object, for programs that save in their steps. Collective.

  It has a manager and the values of the program. Rank 0 prints what it saves
  and restores, unless the program configures `logging` or BELAY_LOG is set. It is a context manager that closes itself; after an exception it
  only frees what needs no other rank.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
  directory : str or os.PathLike
      Is created if its parent exists.
  state : dict or function
      What is saved and restored, as for `belay.save`: a restore fills the
      arrays of a dict in place, and puts its other values into it. A function
      without arguments returns the state. It is called on all ranks when a save
      is due, and before a restore.
  load : function
      With a function as `state`: gets the state that a restore returns, and
      puts into the program what is not filled in place.
  **options
      Those of `CheckpointManager`.

  Attributes
  ----------
  manager : CheckpointManager

  Examples
  --------
  >>> state = {"u": belay.Piece(u, (96, 64), (begin, 0)), "step": 0}
  >>> with belay.Run(comm, "run", state, save_interval_steps=10) as run:
  ...   if run.restore() is None:
  ...     start()
  ...   while state["step"] < 1000:
  ...     advance()
  ...     run.step(state["step"])
  """

  def __init__(self, comm, directory, state, *, load=None, **options):
    if callable(state) and load is None:
      raise TypeError("a function as `state` needs `load`, a function that gets "
                      "what was restored")
    _log.print_info()
    self._state = state
    self._load = load
    self.manager = CheckpointManager(comm, directory, **options)

  def restore(self, **options):
    """Restore the newest step that can be restored. Collective.

    Parameters
    ----------
    **options
        As for `belay.restore`.

    Returns
    -------
    int or None
        The step; None if there is none yet.

    Raises
    ------
    Error
        On all ranks alike, also if `state` or `load` raises on one of them.
    """
    return self.manager._manager.restore(self._state, None, options,
                                         self._load).step

  def step(self, step, **options):
    """Save a step if the rules ask for it. Collective.

    Call it at the end of each step. The last step of a run is not saved unless
    it is due, or ``force=True``.

    Parameters
    ----------
    step : int
    **options
        As for `CheckpointManager.save`.

    Returns
    -------
    ManagedSave or None
        None if no save is due.

    Raises
    ------
    Error
        On all ranks alike, also if `state` raises on one of them. Earlier steps
        are untouched. Errors of a step that is not saved come in the next call.
    """
    if not options.get("force") and not self.manager.should_save(step):
      return None
    return self.manager.save(step, self._state, **options)

  def should_stop(self):
    """Return why the job must stop, or None. Local.

    As `CheckpointManager.should_stop`.
    """
    return self.manager.should_stop()

  def close(self):
    """Wait for a save in the background and release the run. Collective."""
    self.manager.close()

  def __enter__(self):
    return self

  def __exit__(self, kind, value, traceback):
    self.manager.__exit__(kind, value, traceback)
