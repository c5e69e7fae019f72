"""Support of belay.torch for optimizers."""

import collections
import copy

import numpy
import torch

from belay._values import LaidOut, Piece


def parameter_names(module, optimizer):
  """Returns {id of a parameter: its name} for those of the optimizer."""
  names = {id(parameter): name
           for name, parameter in module.named_parameters()}
  for number, group in enumerate(optimizer.param_groups):
    for place, parameter in enumerate(group["params"]):
      names.setdefault(id(parameter), f"group {number} parameter {place}")
  return names


def states_after_a_step(optimizer):
  """Returns {parameter: its state}, new where the optimizer has none."""
  given = [parameter for group in optimizer.param_groups
           for parameter in group["params"]]
  if all(parameter in optimizer.state for parameter in given):
    return optimizer.state
  return {**_new_states(optimizer), **optimizer.state}


def _new_states(optimizer):
  """Returns {parameter: its state after a first step}, made with copies."""
  failure = None
  for make_gradient in (torch.zeros_like, _sparse_zeros):
    for keeps_state in (False, True):  # some have state from the beginning
      try:
        return _step_with_copy(optimizer, make_gradient, keeps_state)
      except Exception as error:  # pylint: disable=broad-except
        failure = failure or error
  cause = ("its steps need a closure" if isinstance(failure, TypeError)
           else f"a step with gradients of zero fails ({failure})")
  raise ValueError(f"{type(optimizer).__name__}: {cause}, so belay cannot make "
                   "its state") from failure


def _sparse_zeros(parameter):
  return torch.sparse_coo_tensor(size=parameter.shape, dtype=parameter.dtype)


def _step_with_copy(optimizer, make_gradient, keeps_state):
  other = _copy_of(optimizer, keeps_state)
  copies = [parameter for group in other.param_groups
            for parameter in group["params"]]
  for parameter in copies:
    parameter.grad = make_gradient(parameter)
  other.step()
  given = [parameter for group in optimizer.param_groups
           for parameter in group["params"]]
  return {parameter: other.state[made]
          for parameter, made in zip(given, copies) if made in other.state}


def _copy_of(optimizer, keeps_state):
  """Returns a copy with new parameters and without hooks."""
  memo = {}
  if not keeps_state:
    memo[id(optimizer.state)] = collections.defaultdict(dict)
  other = copy.deepcopy(optimizer, memo)
  for name, value in vars(optimizer).items():  # PyTorch does not copy all
    if name == "step" or "hook" in name or name in vars(other):
      continue
    try:
      value = copy.deepcopy(value, memo)
    except TypeError:  # such as a lock
      pass
    setattr(other, name, value)
  return other


def whole(value):
  """Returns the tensor in a wrapper, or a NumPy array as a tensor."""
  if isinstance(value, (LaidOut, Piece)):
    return value.array
  return torch.from_numpy(value) if isinstance(value, numpy.ndarray) else value


def _as_given(given, value):
  """Returns a restored hyperparameter in the form that the optimizer has."""
  if isinstance(value, dict) and value and not isinstance(given, dict):
    # Steps that were saved before belay stored the kinds of containers.
    value = [value[key] for key in sorted(value, key=int)]
  if isinstance(value, (list, tuple)):
    items = list(value)
    like = list(given) if isinstance(given, (list, tuple)) else []
    like += [None] * (len(items) - len(like))
    kind = list if isinstance(given, list) else tuple
    return kind(map(_as_given, like, items))
  value = whole(value)
  if isinstance(given, torch.Tensor):
    return torch.as_tensor(value, dtype=given.dtype)
  return value


def _is_equal(one, other):
  try:
    return bool(one == other)
  except (RuntimeError, ValueError):  # of tensors and arrays
    return False


def load_optimizer(optimizer, found, names):
  groups = found["groups"]
  if isinstance(groups, dict):  # as above
    groups = [groups[key] for key in sorted(groups, key=int)]
  if len(groups) != len(optimizer.param_groups):
    raise ValueError(f"parameter groups: the optimizer has "
                     f"{len(optimizer.param_groups)}, stored are {len(groups)}")
  is_other = False
  for number, group in enumerate(optimizer.param_groups):
    for key, value in groups[number].items():
      restored = _as_given(group.get(key), value)
      if key not in ("lr", "initial_lr"):
        is_other |= not _is_equal(group.get(key), restored)
      group[key] = restored
    for parameter in group["params"]:
      values = found["state"].get(names[id(parameter)])
      if values:
        optimizer.state[parameter] = {key: whole(value)
                                      for key, value in values.items()}
      else:
        optimizer.state.pop(parameter, None)
  if is_other:
    _check_states(optimizer, names)


def _check_states(optimizer, names):
  """Raises an error if the restored settings need state that is missing."""
  try:
    needed = _new_states(optimizer)
  except ValueError:
    return
  for parameter, values in needed.items():
    found = optimizer.state.get(parameter)
    for key, value in values.items() if found else ():
      if not isinstance(value, torch.Tensor):
        continue
      if getattr(found.get(key), "shape", None) != value.shape:
        raise ValueError(
            f"{names[id(parameter)]}: the stored settings of the optimizer "
            f"need {key!r}, which was not restored; create the optimizer with "
            "the settings that it was saved with")
