"""Messages of the library go to the logger "belay" of Python's logging."""

import atexit
import logging
import os
import sys

from belay import _core

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO,
           "warning": logging.WARNING, "error": logging.ERROR}


class _LastResort(logging.Handler):
  """Prints to stderr unless the program has handlers of its own."""

  def emit(self, record):
    if _logger.handlers != [self] or logging.getLogger().handlers:
      return
    sys.stderr.write(f"belay: {record.levelname.lower()}: "
                     f"{record.getMessage()}\n")


_logger = logging.getLogger("belay")
_wanted = _LEVELS.get(os.environ.get("BELAY_LOG"))
if _wanted is None:
  _logger.addHandler(logging.NullHandler())
else:
  _logger.setLevel(_wanted)
  _logger.addHandler(_LastResort())
_core.start_log(_logger.log, _logger.getEffectiveLevel)
atexit.register(_core.stop_log)
