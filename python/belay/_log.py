"""Messages of the library go to the logger "belay" of Python's logging."""

import atexit
import logging
import os
import sys

from belay import _core

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO,
           "warning": logging.WARNING, "error": logging.ERROR}


class _LastResort(logging.Handler):
  """Prints to stderr unless the program has handlers of its own.

  Without BELAY_LOG, errors are not printed: the caller gets them.
  """

  def emit(self, record):
    if _logger.handlers != [self] or logging.getLogger().handlers:
      return
    if not _is_chosen and record.levelno > logging.WARNING:
      return
    sys.stderr.write(f"belay: {record.levelname.lower()}: "
                     f"{record.getMessage()}\n")


_logger = logging.getLogger("belay")
_wanted = os.environ.get("BELAY_LOG")
_is_chosen = _wanted in _LEVELS
if _is_chosen:
  _logger.setLevel(_LEVELS[_wanted])
_logger.addHandler(logging.NullHandler() if _wanted == "none"
                   else _LastResort())
_core.start_log(_logger.log, _logger.getEffectiveLevel)
atexit.register(_core.stop_log)


def print_info():
  """Lets saves and restores be printed, unless the program or BELAY_LOG says
  what is."""
  if (_wanted is None and _logger.level == logging.NOTSET
      and not logging.getLogger().handlers):
    _logger.setLevel(logging.INFO)
