"""Copies steps to safetensors files, from them, and to other steps."""

import dataclasses
import json
import os
import tempfile
from typing import Any

from belay import _core
from belay._progress import progress_of


@dataclasses.dataclass
class SafetensorsFile:
  """A safetensors file that was written or read.

  Attributes
  ----------
  path : str
  num_tensors : int
      Number of tensors transferred.
  nbytes : int
      Size of the whole file.
  """

  path: str
  num_tensors: int
  nbytes: int


@dataclasses.dataclass
class ExportResult:
  """What `export_safetensors` has written; equal on all ranks.

  Attributes
  ----------
  path : str
      The directory of the step.
  step : int
  files : list of SafetensorsFile
  index : str
      The path of the index; empty if there is one file.
  num_tensors, nbytes : int
  left_out : dict of str to str
      Omitted keys, with the reasons.
  """

  path: str
  step: int
  files: list
  index: str
  num_tensors: int
  nbytes: int
  left_out: dict


@dataclasses.dataclass
class ImportResult:
  """What `import_safetensors` has saved; equal on all ranks.

  Attributes
  ----------
  files : list of SafetensorsFile
  num_tensors : int
  num_texts : int
      Number of metadata strings.
  nbytes : int
  left_out : dict of str to str
      Omitted names, with the reasons.
  saved : SaveResult
  """

  files: list
  num_tensors: int
  num_texts: int
  nbytes: int
  left_out: dict
  saved: Any


@dataclasses.dataclass
class CopyResult:
  """What `copy_checkpoint` has done; equal on all ranks.

  Attributes
  ----------
  source : str
      The step that was read.
  num_copied, num_made, num_left_out : int
      Numbers of values copied unchanged, made by rules, and omitted.
  nbytes : int
  without_objects : bool
      Rules made arrays that belong to no object of the source.
  saved : SaveResult
  """

  source: str
  num_copied: int
  num_made: int
  num_left_out: int
  nbytes: int
  without_objects: bool
  saved: Any


@dataclasses.dataclass
class VerifyResult:
  """What `verify_checkpoint` has found.

  Attributes
  ----------
  path : str
  blocks, nbytes : int
      Numbers of blocks and bytes that were compared with their checksums.
  damage : list of str
      A line for each damaged block or file; empty if there is none.
  """

  path: str
  blocks: int
  nbytes: int
  damage: list


def _with_progress(comm, options, title):
  """Returns the options with a callable for ``progress=True``."""
  progress = options.get("progress")
  if isinstance(progress, bool):
    progress = progress_of(progress, title, comm.Get_rank())
  return {**options, "progress": progress}


def export_safetensors(comm, directory, out, step=None, **options):
  """Write the arrays of a step as safetensors. Collective.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
  directory : str or os.PathLike
      A directory of steps, or a step.
  out : str or os.PathLike
      A file that ends with ".safetensors", or a directory.
  step : int, optional
      The default is the newest.
  keys : list of str, optional
      Regular expressions for whole keys. The default is all.
  metadata : dict of str to str, optional
      Such as ``{"format": "pt"}``, which Transformers requires.
  leave_out_others : bool, optional
      Omit values that the format cannot represent, instead of raising an error.
  max_file_bytes : int, optional
      Write files of at most this size, with an index.
  overwrite, checksums, durable : bool, optional
  max_bytes_in_flight : int, optional
  deadline_seconds : float, optional
  progress : callable or bool, optional
      ``progress(done_bytes, total_bytes)`` is called with the progress of this
      rank. True shows a bar of tqdm on rank 0 or, without tqdm, logs.

  Returns
  -------
  ExportResult

  Raises
  ------
  Error
      Raised on all ranks, also if `progress` raises on one. Nothing of the
      export remains.
  """
  return _core.export_safetensors(comm, directory, step, out,
                                  _with_progress(comm, options, "export"))


def import_safetensors(comm, files, directory, step, **options):
  """Save the tensors of safetensors files as a step. Collective.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
  files : str, os.PathLike, or a list of these
      Files, indexes (".json"), or directories.
  directory : str or os.PathLike
  step : int
  keys : list of str, optional
      Regular expressions for whole names. The default is all.
  file_metadata : bool, optional
      Import the metadata of the files. The default is True.
  leave_out_others : bool, optional
      Omit tensors with a dtype that belay does not support.
  progress : callable or bool, optional
      As for `export_safetensors`.
  **options
      Those of `save`.

  Returns
  -------
  ImportResult

  Raises
  ------
  Error
      Raised on all ranks. No step is committed.
  """
  return _core.import_safetensors(comm, files, directory, step,
                                  _with_progress(comm, options, "import"))


def copy_checkpoint(comm, source, directory, step=None, to_step=None,
                    **options):
  """Save values of a step as another step, unchanged or converted.

  Collective.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
  source, directory : str or os.PathLike
  step : int, optional
      Of the source; the default is the newest.
  to_step : int, optional
      Of the copy; the default is that of the source.
  keys, leave_out : list of str, optional
      Regular expressions for whole keys: what to copy, and what to omit from
      that.
  rules : dict, str or os.PathLike, optional
      How arrays are computed from those of the source: the rules of ``belay
      convert`` (docs/arguments.md), or a file of them.
  scratch : str or os.PathLike, optional
      A directory for data that does not fit into memory.
  progress : callable or bool, optional
      As for `export_safetensors`.
  **options
      Those of `save`.

  Returns
  -------
  CopyResult

  Raises
  ------
  Error
      Raised on all ranks. No step is committed.
  """
  given = _with_progress(comm, options, "copy")
  rules = given.get("rules")
  if not isinstance(rules, dict):
    return _core.copy(comm, source, step, directory, to_step, given)
  with _RulesFile(rules) as given["rules"]:
    return _core.copy(comm, source, step, directory, to_step, given)


class _RulesFile(os.PathLike):
  """Rules in a temporary file, created when the library asks for its path.

  The ranks can then agree on a failure.
  """

  def __init__(self, rules):
    self._rules, self._file = rules, None

  def __fspath__(self):
    if self._file is None:
      text = json.dumps(self._rules)
      self._file = tempfile.NamedTemporaryFile("w", suffix=".json",
                                               encoding="utf-8")
      self._file.write(text)
      self._file.flush()
    return self._file.name

  def __enter__(self):
    return self

  def __exit__(self, *error):
    if self._file is not None:
      self._file.close()


def verify_checkpoint(path, **options):
  """Read every byte of a step and verify checksums. Local.

  Parameters
  ----------
  path : str or os.PathLike
      A step, or a directory of steps, whose newest step is used.
  progress : callable or bool, optional
      ``progress(done_bytes, total_bytes)``, or True as for
      `export_safetensors`.

  Returns
  -------
  VerifyResult
      Damage is not an error; the result lists it.

  Raises
  ------
  Error
      If the step or its index cannot be read; what `progress` raises.
  """
  progress = progress_of(options.get("progress"), "verify")
  return _core.verify(path, {**options, "progress": progress})
