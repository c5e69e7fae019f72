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
_prints_info = False


def _is_configured():
  """Whether the program has said what is logged."""
  return (_wanted is not None or _logger.level != logging.NOTSET
          or bool(logging.getLogger().handlers)
          or len(_logger.handlers) > 1)


def _level():
  if _prints_info and not _is_configured():
    return logging.INFO
  return _logger.getEffectiveLevel()


def _log(level, form, message):
  if level == logging.INFO and _prints_info and not _is_configured():
    sys.stderr.write(f"belay: info: {message}\n")
  else:
    _logger.log(level, form, message)


def print_info():
  """Prints saves and restores, unless the program or BELAY_LOG says what is."""
  global _prints_info
  _prints_info = True


_core.start_log(_log, _level)
atexit.register(_core.stop_log)
