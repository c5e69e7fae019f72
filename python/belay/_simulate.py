"""Plans of saves and restores on any number of ranks."""

import os

from belay import _core

_MODELS = os.path.join(os.path.dirname(__file__), "models")


def simulate(model, save="dp=1", restore=None, **options):
  """Plan a save and a restore of a model, without ranks or values. Local.

  Parameters
  ----------
  model : str or os.PathLike
      A name such as "llama3-8b", or a table of tensors (docs/simulate.md).
  save : str, optional
      The parallelism of the job that saves, such as
      ``"tp=8,pp=2,dp=4,zero=1"``.
  restore : str, optional
      The same for the job that restores. The default is no restore.
  file_layout : {"shared", "per_node", "per_task"}, optional
  read_sharing : {"auto", "each_rank", "once"}, optional
  weights_only : bool, optional
      Omit the state of AdamW.
  ranks_per_node, pad_vocabulary, divide : int, optional

  Returns
  -------
  dict
      "model", "parameters", and for "save" and "restore" what ``belay simulate
      --json`` prints. Values per rank are lists by rank.

  Raises
  ------
  Error

  Examples
  --------
  >>> plan = belay.simulate("llama3-8b", "fsdp=64", "tp=8,dp=8")
  >>> max(plan["save"]["written_bytes"])
  1756619656
  """
  return _core.simulate(model, _MODELS, save, restore, options)
