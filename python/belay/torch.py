"""States of modules and optimizers of PyTorch.

>>> import belay.torch
>>> belay.save(comm, "run", 7, belay.torch.state_dict(model, adam))
>>> blank = belay.torch.blank_state_dict(model, adam)
>>> restored = belay.restore(comm, "run", blank)
>>> belay.torch.load_state_dict(model, adam, restored.state)

The state of an optimizer for a parameter is stored under the name of the
parameter, so it can be found in other groups and on other ranks. Tensors are
neither copied nor sent; they must be on the CPU.
"""

import ast
import dataclasses
import json
import math
import random
import re
from typing import Optional

import numpy
import torch

from belay._core import Layout, Mesh
from belay import _manager
from belay._optimizers import (load_optimizer, parameter_names,
                               states_after_a_step, whole)
from belay._values import FlatRange, IfStored, LaidOut, PerRank, Piece

__all__ = [
    "FlatShards", "Replicate", "Run", "Shard", "blank_state_dict", "cut",
    "load_state_dict", "state_dict"
]


@dataclasses.dataclass(frozen=True)
class Replicate:
  """A placement: ranks along this axis of the mesh hold the same values."""


@dataclasses.dataclass(frozen=True)
class Shard:
  """A placement: ranks along this axis of the mesh hold parts, as in DTensor.

  Parameters
  ----------
  dim : int
      The dimension of the tensor that is split into parts of equal length; the
      last parts may be shorter or empty (``torch.chunk``).
  """

  dim: int


def cut(tensor, mesh, placements, rank, global_shape=None):
  """Return the value that belay saves for this rank's part of a tensor. Local.

  Parameters
  ----------
  tensor : torch.Tensor
      The part that this rank holds.
  mesh : Mesh
  placements : list of Shard or Replicate
      One for each axis of the mesh, in its order. At most one axis cuts each
      dimension.
  rank : int
  global_shape : sequence of int, optional
      Needed if the parts are not equal.

  Returns
  -------
  torch.Tensor, LaidOut or Piece
      The tensor itself if it is not partitioned.

  Raises
  ------
  ValueError
      If the placements do not fit the mesh or the tensor.
  """
  parts = _parts(tensor, mesh, placements)
  if not parts:
    return tensor
  axes = [parts[dim][0] if dim in parts else None
          for dim in range(tensor.dim())]
  layout = Layout(mesh, axes)
  if global_shape is None:
    global_shape = [length * (parts[dim][1] if dim in parts else 1)
                    for dim, length in enumerate(tensor.shape)]
  global_shape = tuple(global_shape)
  if all(global_shape[dim] % count == 0 for dim, (_, count) in parts.items()):
    return LaidOut(tensor, layout, global_shape)
  places = dict(zip(mesh.axes, mesh.coordinates(rank)))
  offset = [0] * tensor.dim()
  for dim, (axis, count) in parts.items():
    length = math.ceil(global_shape[dim] / count)
    offset[dim] = min(places[axis] * length, global_shape[dim])
  cutting = {axis for axis, _ in parts.values()}
  replica = 0
  for axis, size in mesh.axes.items():
    if axis not in cutting:
      replica = replica * size + places[axis]
  return Piece(tensor, global_shape, tuple(offset), replica=replica)


def _parts(tensor, mesh, placements):
  """Returns {dim: (axis of the mesh, number of parts)}."""
  if len(placements) != len(mesh.axes):
    raise ValueError(f"placements: need {len(mesh.axes)}, one for each axis of "
                     f"the mesh, found {len(placements)}")
  parts = {}
  for (axis, count), placement in zip(mesh.axes.items(), placements):
    if isinstance(placement, Replicate):
      continue
    if not isinstance(placement, Shard):
      raise ValueError(f"placements: need Shard or Replicate, found "
                       f"{placement!r}")
    dim = placement.dim + (tensor.dim() if placement.dim < 0 else 0)
    if not 0 <= dim < tensor.dim():
      raise ValueError(f"placements: {placement} of a tensor with "
                       f"{tensor.dim()} dimensions")
    if dim in parts:
      raise ValueError(f"placements: two axes cut dimension {dim}")
    parts[dim] = (axis, count)
  return parts


@dataclasses.dataclass
class _Cuts:
  """Which parameters are partitioned, and how."""

  placements: dict
  mesh: Optional[Mesh]
  rank: int
  global_shapes: dict

  def __call__(self, name, tensor):
    if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
      return tensor
    for pattern, placements in self.placements.items():
      if re.fullmatch(pattern, name):
        return cut(tensor, self.mesh, placements, self.rank,
                   self.global_shapes.get(name))
    return tensor


def _of_optimizer(optimizer, states, names, cuts):
  """Returns the values to save for an optimizer with these states."""
  all_states = {}
  for group in optimizer.param_groups:
    for parameter in group["params"]:
      name = names[id(parameter)]
      found = {}
      for key, value in states.get(parameter, {}).items():
        is_alike = (isinstance(value, torch.Tensor)
                    and value.shape == parameter.shape and value.dim() > 0)
        found[key] = cuts(name, value) if is_alike else value
      if found:
        all_states[name] = found
  groups = [{key: value for key, value in group.items() if key != "params"}
            for group in optimizer.param_groups]
  return {"state": all_states, "groups": groups}


def _state_dict(module, optimizer, states, options):
  cuts = _Cuts(options.pop("placements", None) or {}, options.pop("mesh", None),
               options.pop("rank", 0), options.pop("global_shapes", None) or {})
  if options:
    raise TypeError(f"unknown option {next(iter(options))!r}")
  if cuts.placements and cuts.mesh is None:
    raise ValueError("placements: need the mesh of the ranks")
  found = {"model": {name: cuts(name, value)
                     for name, value in module.state_dict().items()}}
  if optimizer is not None:
    found["optimizer"] = _of_optimizer(optimizer, states,
                                       parameter_names(module, optimizer),
                                       cuts)
  return found


def state_dict(module, optimizer=None, **options):
  """Return the state that belay saves for a module and its optimizer. Local.

  Parameters
  ----------
  module : torch.nn.Module
  optimizer : torch.optim.Optimizer, optional
  placements : dict, optional
      The placements of parameters by a regular expression for whole names, for
      example ``{".*proj.weight": [Replicate(), Shard(0)]}``. They also apply to
      the optimizer's tensors of the same shape. Parameters that none matches
      are equal on all ranks.
  mesh : Mesh, optional
  rank : int, optional
      With `placements`: the mesh of the ranks, and which of them this is.
  global_shapes : dict, optional
      The shapes of parameters by name; needed if parts are not equal.

  Returns
  -------
  dict
      For `belay.save`, with the keys "model" and "optimizer". Shares the memory
      of the tensors.
  """
  states = optimizer.state if optimizer is not None else {}
  return _state_dict(module, optimizer, states, options)


def blank_state_dict(module, optimizer=None, **options):
  """Return a state for a restore to fill. Local.

  An optimizer has no state before its first step. The result has the state as
  after one step, in new memory if the optimizer has none; neither the
  parameters nor the optimizer change. A restore fills only stored values:
  frozen parameters, and all parameters before the first step, may have no
  stored state. Hyperparameters may be stored with any type.

  Parameters
  ----------
  module, optimizer, options
      As for `state_dict`.

  Returns
  -------
  dict
      For `belay.restore`. Give its ``state`` to `load_state_dict`.

  Raises
  ------
  ValueError
      If an optimizer without state cannot take a step with gradients of zero,
      for example because its steps need a closure.
  """
  if optimizer is None:
    return _state_dict(module, None, {}, options)
  found = _state_dict(module, optimizer, states_after_a_step(optimizer),
                      options)
  found["optimizer"] = {"state": IfStored(found["optimizer"]["state"]),
                        "groups": None}
  return found


def load_state_dict(module, optimizer, state):
  """Put restored values into a module and its optimizer. Local.

  Calls ``module.load_state_dict``. The optimizer gets the hyperparameters that
  are stored, and keeps no state that is not stored.

  Parameters
  ----------
  module : torch.nn.Module
  optimizer : torch.optim.Optimizer or None
  state : dict
      The ``state`` of the result of a restore into `blank_state_dict`. A blank
      that no restore has filled changes nothing.

  Raises
  ------
  ValueError
      If the number of parameter groups differs from the stored one, or if the
      optimizer was created without a setting, such as momentum, whose state is
      stored.
  """
  if optimizer is not None and isinstance(state["optimizer"]["state"],
                                          IfStored):
    return
  found = module.state_dict()
  found.update((name, whole(value)) for name, value in state["model"].items())
  module.load_state_dict(found)
  if optimizer is not None:
    load_optimizer(optimizer, state["optimizer"],
                   parameter_names(module, optimizer))


class Run(_manager.Run):
  """A run of a trainer: its model, its optimizer, random states and more.

  Random states are those of `torch`, of `numpy.random`, of `random` and of
  `generators`; those of GPUs if the program uses any. Each rank has its own. On
  another number of ranks than has saved they stay as the program has set them,
  as does a generator that was added since. Tensors of the model and the
  optimizer are on the CPU.

  Parameters
  ----------
  comm : mpi4py.MPI.Comm
  directory : str or os.PathLike
  model : torch.nn.Module
  optimizer : torch.optim.Optimizer, optional
  others : dict, optional
      Objects with ``state_dict()`` and ``load_state_dict(state)`` by name, such
      as schedulers, scalers, and samplers or loaders that know their place.
      They must be equal on all ranks.
  generators : dict, optional
      Objects of `torch.Generator` or `numpy.random.Generator` by name.
  state : dict, optional
      More values, as for `belay.Run`.
  placements, mesh, global_shapes : optional
      How parameters are cut, as for `state_dict`.
  **options
      Those of `CheckpointManager`.

  Examples
  --------
  >>> progress = {"step": 0}
  >>> with belay.torch.Run(comm, "run", model, adam, state=progress,
  ...                      others={"scheduler": scheduler},
  ...                      save_interval_steps=100) as run:
  ...   run.restore()
  ...   while progress["step"] < 1000:
  ...     train()
  ...     progress["step"] += 1
  ...     run.step(progress["step"])
  """

  def __init__(self, comm, directory, model, optimizer=None, *, others=None,
               generators=None, state=None, placements=None, mesh=None,
               global_shapes=None, **options):
    self._model = model
    self._optimizer = optimizer
    self._others = dict(others or {})
    self._generators = dict(generators or {})
    self._more = state if state is not None else {}
    self._cuts = {"placements": placements, "mesh": mesh, "rank": comm.rank,
                  "global_shapes": global_shapes}
    self._ranks = str(comm.size)
    super().__init__(comm, directory, self._save, load=self._take, **options)

  def restore(self, **options):
    self._state = self._blank
    try:
      return super().restore(**options)
    finally:
      self._state = self._save

  def _save(self):
    found = state_dict(self._model, self._optimizer, **self._cuts)
    found["others"] = {name: one.state_dict()
                       for name, one in self._others.items()}
    for name, one in found["others"].items():
      if not isinstance(one, dict) or not one:
        raise TypeError(f"others: state_dict() of {name!r} is no dict with values")
    found["random"] = {self._ranks: self._random()}
    found["state"] = self._more
    return found

  def _blank(self):
    found = blank_state_dict(self._model, self._optimizer, **self._cuts)
    # A None takes what is stored, and it is an error if nothing is.
    found["others"] = dict.fromkeys(self._others)
    found["random"] = IfStored({self._ranks: self._random()})
    found["state"] = self._more
    return found

  def _random(self):
    return {name: PerRank(state) for name, state
            in _random_states(self._generators).items()}

  def _take(self, state):
    load_state_dict(self._model, self._optimizer, state)
    for name, one in self._others.items():
      one.load_state_dict(state["others"][name])
    stored = state["random"]
    stored = {} if isinstance(stored, IfStored) else stored
    if self._ranks in stored:
      _set_random_states({name: one.value for name, one
                          in stored[self._ranks].items()}, self._generators)


def _random_states(generators):
  found = {"torch": torch.get_rng_state(),
           "numpy": numpy.random.get_state(),
           "python": repr(random.getstate())}
  if torch.cuda.is_initialized():
    for number, state in enumerate(torch.cuda.get_rng_state_all()):
      found[f"cuda {number}"] = state
  for name, one in generators.items():
    found[f"generator {name}"] = (
        one.get_state() if isinstance(one, torch.Generator) else json.dumps(
            one.bit_generator.state, default=lambda array: array.tolist()))
  return found


def _set_random_states(states, generators):
  """Sets what is there; what was added since is left as it is."""
  for name, state in states.items():
    if name == "torch":
      torch.set_rng_state(state)
    elif name == "numpy":
      numpy.random.set_state(state)
    elif name == "python":
      random.setstate(ast.literal_eval(state))
    elif name.startswith("cuda "):
      torch.cuda.set_rng_state(state, int(name[len("cuda "):]))
    else:
      one = generators[name[len("generator "):]]
      if isinstance(one, torch.Generator):
        one.set_state(state)
      else:
        one.bit_generator.state = json.loads(state)


class FlatShards:
  """Concatenated tensors, of which each rank has an equal range: ZeRO-1, FSDP.

  Parameters
  ----------
  shapes : dict
      The shape of each tensor by name, or tensors, in the order of
      concatenation. Equal on all ranks.
  rank, size : int
  multiple : int, optional
      The length of a range is a multiple of this.

  Attributes
  ----------
  begin, end : int
      The range of this rank. The last ranges may extend beyond the last tensor.
  numel : int
      The number of elements of all tensors.

  Examples
  --------
  >>> shards = belay.torch.FlatShards(dict(model.named_parameters()),
  ...                                 comm.rank, comm.size)
  >>> exp_avg = torch.zeros(shards.length)
  >>> belay.save(comm, "run", 7, {"exp_avg": shards.range(exp_avg)})
  """

  def __init__(self, shapes, rank, size, multiple=1):
    self.shapes = {name: tuple(getattr(one, "shape", one))
                   for name, one in shapes.items()}
    self.numel = sum(math.prod(shape) for shape in self.shapes.values())
    length = math.ceil(self.numel / size)
    self.length = math.ceil(length / multiple) * multiple
    self.begin = rank * self.length
    self.end = self.begin + self.length

  def range(self, tensor):
    """Return this rank's range as a value of a state. Local.

    Parameters
    ----------
    tensor : torch.Tensor
        Of `length` elements. Each array is stored under the key of the value
        and its name, and can be restored in any other partition.
    """
    return FlatRange(tensor, self.shapes, self.begin)

  def take(self, tensors):
    """Return a copy of this rank's range of whole tensors. Local.

    Parameters
    ----------
    tensors : iterable of torch.Tensor
        In the order of `shapes`.
    """
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    part = flat[self.begin:self.end]
    return torch.nn.functional.pad(part, (0, self.length - part.numel()))

  def put(self, flat, tensors):
    """Copy a whole flat tensor, such as an all-gather's result, back. Local.

    Parameters
    ----------
    flat : torch.Tensor
        Of at least `numel` elements.
    tensors : iterable of torch.Tensor
        In the order of `shapes`.
    """
    begin = 0
    with torch.no_grad():
      for tensor in tensors:
        tensor.copy_(flat[begin:begin + tensor.numel()].reshape(tensor.shape))
        begin += tensor.numel()
