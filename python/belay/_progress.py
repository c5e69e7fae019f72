"""Implements the option `progress`."""

import logging

_LOGGER = logging.getLogger("belay")


def progress_of(progress, title, rank=0):
  """Returns a callable, or None, for the value that the program has passed."""
  if progress is None or progress is False:
    return None
  if progress is not True:
    return progress
  if rank != 0:
    return None
  try:
    import tqdm  # pylint: disable=import-outside-toplevel
  except ImportError:
    return _Lines(title)
  return _Bar(tqdm.tqdm, title)


class _Bar:
  """A bar of tqdm, which ends with the last byte."""

  def __init__(self, tqdm, title):
    self._tqdm, self._title, self._bar = tqdm, title, None

  def __call__(self, done, total):
    if self._bar is None:
      self._bar = self._tqdm(total=total, desc=self._title, unit="B",
                             unit_scale=True)
    self._bar.update(done - self._bar.n)
    if done >= total:
      self._bar.close()


class _Lines:
  """A message at each tenth."""

  def __init__(self, title):
    self._title, self._tenth = title, 0

  def __call__(self, done, total):
    tenth = 10 * done // total if total else 10
    if tenth > self._tenth:
      self._tenth = tenth
      _LOGGER.info("%s: %d of %d bytes", self._title, done, total)
