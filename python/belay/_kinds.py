"""Kinds of containers and keys, as texts that a checkpoint stores.

belay stores arrays and single values under text keys. It also stores what these
texts do not express, so that a restore without a template returns the same
containers with the same keys. A kind is a name, or a JSON object with the name
and what the container needs.
"""

import collections
import copy
import json
from collections import abc

_FACTORIES = {kind.__name__: kind
              for kind in (int, float, complex, bool, str, bytes, list, tuple,
                           dict, set, frozenset, collections.Counter,
                           collections.OrderedDict, collections.deque)}


def kind_of(value):
  """Return (kind, whether a restore can rebuild exactly this class)."""
  cls = type(value)
  if isinstance(value, abc.Mapping):
    if cls in (dict, collections.OrderedDict, collections.Counter):
      return cls.__name__, True
    if cls is collections.defaultdict:
      factory = value.default_factory
      name = getattr(factory, "__name__", None)
      if factory is None or _FACTORIES.get(name) is factory:
        return json.dumps({"defaultdict": name}), True
    if isinstance(value, collections.OrderedDict):
      return "OrderedDict", False
    return "dict", False
  if isinstance(value, collections.deque):
    if value.maxlen is None:
      return "deque", cls is collections.deque
    return json.dumps({"deque": value.maxlen}), cls is collections.deque
  if isinstance(value, tuple) and hasattr(value, "_fields"):
    return json.dumps({"namedtuple": [cls.__name__, list(value._fields)]}), True
  for base in (list, tuple, set, frozenset):
    if isinstance(value, base):
      # torch.Size and other subclasses of tuple are equal to the tuple.
      return base.__name__, cls is base or base is tuple
  raise TypeError(f"no container: {cls.__name__}")


def elements_of(values):
  """Return the elements of a set, in an order that is the same on all ranks."""
  # The text of a frozenset has a different order in each process.
  return sorted(values, key=lambda one: (type(one).__name__,
                                         json.dumps(_encode(one))))


def text_of(name):
  """Return (text, JSON) of a key of a dict that is not a plain str or int.

  Raises a TypeError if no restore could rebuild the key.
  """
  text = str.__str__(name) if isinstance(name, str) else repr(name)
  if isinstance(name, str):
    if type(name) is not str and str(name) != text:
      raise TypeError
    return text, json.dumps(text)
  encoded = json.dumps(_encode(name))
  if isinstance(name, bool) or name is None:
    return text, encoded
  if isinstance(name, int):  # an IntEnum is equal to its number
    return int.__repr__(name), encoded
  if "frozenset" in encoded:  # whose text differs between processes
    text = encoded
  return text.replace("/", "|"), encoded


def _encode(name):
  """Return the JSON form of a key or of an element of a set."""
  if name is None or type(name) in (bool, str):
    return name
  if isinstance(name, int):
    return {"int": int.__repr__(name)}
  if type(name) is float:
    return {"float": repr(name)}
  if type(name) is complex:
    return {"complex": repr(name)}
  if type(name) is bytes:
    return {"bytes": name.hex()}
  if type(name) in (tuple, frozenset):
    parts = name if type(name) is tuple else elements_of(name)
    return {type(name).__name__: [_encode(part) for part in parts]}
  raise TypeError(type(name).__name__)


def name_from(text):
  """Return the key that `text_of` has encoded."""
  return _decode(json.loads(text))


def _decode(value):
  if not isinstance(value, dict):
    return value
  (kind, what), = value.items()
  if kind in ("tuple", "frozenset"):
    parts = map(_decode, what)
    return tuple(parts) if kind == "tuple" else frozenset(parts)
  make = {"int": int, "float": float, "complex": complex,
          "bytes": bytes.fromhex}[kind]
  return make(what)


def is_sequence(kind):
  """Return whether containers of this kind have elements without keys."""
  name, _ = _parsed(kind)
  return name in ("list", "tuple", "set", "frozenset", "deque", "namedtuple")


def made(kind, values):
  """Return the container of a kind with the values of a list or a dict."""
  name, what = _parsed(kind)
  if name == "deque":
    return collections.deque(values, what)
  if name == "namedtuple":
    if len(values) != len(what[1]):  # a part of what was stored
      return tuple(values)
    return collections.namedtuple(what[0], what[1])(*values)
  if name == "defaultdict":
    return collections.defaultdict(_FACTORIES.get(what), values)
  if name == "Counter":
    counter = collections.Counter()
    dict.update(counter, values)
    return counter
  plain = {"OrderedDict": collections.OrderedDict, "tuple": tuple, "set": set,
           "frozenset": frozenset, "bytes": bytes, "bytearray": bytearray}
  if name not in plain:
    return values
  if what is not None or isinstance(values, int):  # bytes(n) would be n zeros
    raise TypeError(f"no such kind: {kind}")
  return plain[name](values)


def _parsed(kind):
  if not kind.startswith("{"):
    return kind, None
  (name, what), = json.loads(kind).items()
  return name, what


def like(given, values):
  """Return `values` in a new container of the class of `given`."""
  cls = type(given)
  if isinstance(given, abc.Mapping):
    return _like_mapping(given, values)
  if isinstance(given, tuple) and hasattr(given, "_fields"):
    return cls(*values)
  if isinstance(given, collections.deque):
    return cls(values, given.maxlen)
  return cls(values)


def _like_mapping(given, values):
  cls = type(given)
  if cls is collections.defaultdict:
    return collections.defaultdict(given.default_factory, values)
  if cls in (collections.OrderedDict, collections.Counter):
    return made(cls.__name__, values)
  if cls is dict or not isinstance(given, abc.MutableMapping):
    return values
  try:  # a class of the program
    new = copy.copy(given)
    for key, value in values.items():
      new[key] = value
  except Exception:  # pylint: disable=broad-except
    return values
  return new if set(new) == set(values) else values
