"""Ends all ranks if an uncaught exception ends one of them."""

import os
import re
import sys
import time

from belay._errors import Error

_VARIABLE = "BELAY_ABORT_ON_EXCEPTION"
_enabled = True
_armed = False


def abort_on_exception(enabled=True):
  """Choose whether an uncaught exception of one rank ends all ranks. Local.

  It does, with exit code 1, once the program has passed a communicator of more
  than one rank to the package: the others might wait for that rank forever. The
  environment variable ``BELAY_ABORT_ON_EXCEPTION=0`` also disables this.

  Parameters
  ----------
  enabled : bool, optional
  """
  global _enabled
  _enabled = bool(enabled)


def arm():
  """Take over sys.excepthook, once. Called with the first communicator."""
  global _armed
  if _armed or os.environ.get(_VARIABLE) == "0":
    return
  _armed = True
  before = sys.excepthook

  def hook(kind, value, trace):
    world = _world_to_end()
    # All ranks get the error of a collective call. Rank 0 prints it and ends
    # all ranks; the others do so only if rank 0 does not.
    if world is not None and world.rank != 0 and _is_agreed(value):
      time.sleep(5)
    before(kind, value, trace)
    if world is not None:
      _end_all(world)

  sys.excepthook = hook


def _is_agreed(error):
  return isinstance(error, Error) and re.search(r" \[rank \d+ of \d+\]$",
                                                str(error)) is not None


def _world_to_end():
  """Return the communicator of all ranks, or None if no rank must be ended."""
  mpi = sys.modules.get("mpi4py.MPI")
  if not _enabled or hasattr(sys, "ps1") or mpi is None:
    return None
  if not mpi.Is_initialized() or mpi.Is_finalized() or mpi.COMM_WORLD.size == 1:
    return None
  return mpi.COMM_WORLD


def _end_all(world):
  print(f"belay: rank {world.rank} of {world.size} ends all ranks after an "
        "exception that was not caught", file=sys.stderr)
  for stream in (sys.stdout, sys.stderr):
    try:
      stream.flush()
    except (AttributeError, OSError, ValueError):
      pass
  world.Abort(1)
