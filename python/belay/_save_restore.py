"""Saves and restores in one call."""

from belay import _core


def save(comm, directory, step, state, **options):
  """Write the state as ``<directory>/step_<step>``. Collective.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
      An intracommunicator of any kind.
  directory : str or os.PathLike
      Created if its parent exists. Equal on all ranks, as are step and options.
  step : int
  state : dict, list or tuple
      Nested dicts, lists, tuples, sets and other containers of `collections`
      of NumPy arrays, tensors of PyTorch on the CPU, numbers, str, bytes and
      None, the same structure on all ranks. Keys of dicts are str, numbers,
      bool, None, bytes and tuples of these. Values are equal on all ranks;
      values that differ need a wrapper, such as `Piece`, `Pieces`, `LaidOut` or
      `Rows`.
  overwrite : bool, optional
      Replace the step if it exists. The default is an error.
  durable : bool, optional
      Sync files before the commit. The default is True.
  checksums : bool, optional
      Checksum each block. The default is True.
  check_replicas : bool, optional
      Compare values that all ranks hold in every save (True) or never (False).
      The default compares every byte in the first save of a structure, and in
      later ones all values up to 256 bytes and a new sample of the others.
  args : dict, optional
      How values are stored, by a regular expression for their keys, such as
      ``{"model/.*": {"dtype": "bf16"}, "table": {"deflate": 4}}``. The names
      are dtype, deflate, write_chunk_shape, read_chunk_shape,
      chunk_byte_size, shard_axes and primary_replica.
  metadata : dict of str to str, optional
      Stored with the values.
  file_layout : {"shared", "per_node", "per_task"}, optional
  array_layout : {"auto", "canonical"}, optional
  transfer : {"auto", "independent", "two_phase", "collective", "hdf5"}, optional
  max_shard_size, max_bytes_in_flight : int; sharding_policy : ShardingPolicy
  float32_as_bfloat16, strict_dtype, read_back : bool, optional
  mpi_io_hints : dict of str to str, optional
  before_commit, after_commit : callable, optional
      ``before_commit(directory, step)`` and ``after_commit(result)`` are called
      on rank 0. They must not communicate.
  deadline_seconds : float, optional
      See docs/options.md for these.

  Returns
  -------
  SaveResult

  Raises
  ------
  Error
      On all ranks. Nothing is committed; earlier steps are untouched.

  Examples
  --------
  >>> belay.save(MPI.COMM_WORLD, "run", 7, {"model": {"w": w}, "step": 7})
  """
  return _core.save(comm, directory, step, state, options)


def restore(comm, directory, state=None, *, step=None, **options):
  """Read a step. Collective.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
  directory : str or os.PathLike
      The directory of the steps, or that of one step.
  state : dict, list or tuple, optional
      As for `save`. Its arrays are filled in place; they must be writeable and
      have the dtype and the shape that are stored. Other values give the
      expected type; None accepts any value. Lists of plain values get the
      stored length; an empty dict gets everything that is stored there. Without
      a state, every rank gets all values, in the containers that were saved,
      with new arrays.
  step : int, optional
      The default is the newest step.
  allow_dtype_cast, allow_shape_mismatch : bool, optional
      Convert numbers, and restore what both shapes have in common.
  strict_dtype : bool, optional
      Fail if converting changes a value by more than rounding. The default is a
      warning for each key.
  missing, unexpected, mismatched : {"error", "warn", "collect", "ignore"}
      What to do with values of the state that are not stored, with stored ones
      that the state does not have, and with those of another dtype or shape.
  args : dict, optional
      By a regular expression for the keys of the state, dicts with the names
      skip, stored_key, allow_missing, allow_dtype_cast and
      allow_shape_mismatch.
  checksums : bool, optional
  read_sharing : {"auto", "each_rank", "once"}, optional
  primary_replica, max_bytes_in_flight : int, optional
  deadline_seconds : float, optional
      See docs/options.md for these.

  Returns
  -------
  RestoreResult
      Its ``state`` is a new structure with the arrays that were passed and with
      new values in place of numbers, str and bytes. The dicts and lists that
      were passed also get these.

  Raises
  ------
  Error
      Raised on all ranks. The values of the arrays are then unspecified.

  Examples
  --------
  >>> restored = belay.restore(comm, "run", {"model": {"w": w}, "step": 0})
  >>> restored.state["step"]
  7
  """
  return _core.restore(comm, directory, state, step, options)


def restore_latest(comm, directory, state, **options):
  """Read the newest step if there is one. Collective.

  Parameters
  ----------
  comm, directory, state, options
      As for `restore`.

  Returns
  -------
  RestoreResult or None
      None if the directory does not exist or has no step. The state is then
      unchanged.

  Raises
  ------
  Error
      Raised on all ranks, also if a step exists but cannot be restored.
  """
  return _core.restore_latest(comm, directory, state, options)


def list_steps(directory, prefix="step"):
  """Return the numbers of the committed steps, ascending. Local.

  Parameters
  ----------
  directory : str or os.PathLike
  prefix : str, optional
      The prefix of the names of step directories.

  Returns
  -------
  list of int
  """
  return _core.list_steps(directory, prefix)
