"""The type stubs and the docstrings tell what the package has."""

import ast
import inspect
import os
import unittest

import belay
from mpi_case import COMM, main

FOLDER = os.path.dirname(belay.__file__)
STUBS = os.path.join(FOLDER, "__init__.pyi")
OPTIONS = os.path.join(FOLDER, "_options.pyi")


def public(names):
  return {name for name in names if not name.startswith("_")}


class StubTest(unittest.TestCase):

  def setUp(self):
    with open(STUBS, encoding="utf-8") as file:
      self.nodes = {node.name: node for node in ast.parse(file.read()).body
                    if isinstance(node, (ast.ClassDef, ast.FunctionDef))}

  def test_names(self):
    stubs = public(self.nodes) | {"STOPPED_EXIT_CODE"}
    self.assertEqual(stubs, set(belay.__all__))

  def test_members(self):
    for name, node in self.nodes.items():
      if not isinstance(node, ast.ClassDef):
        continue
      stubs = public(item.name for item in node.body
                     if isinstance(item, ast.FunctionDef))
      found = getattr(belay, name)
      members = public(key for key, item in vars(found).items()
                       if callable(item) or hasattr(item, "__get__"))
      self.assertLessEqual(stubs, set(dir(found)), name)
      self.assertLessEqual(members, stubs | set(
          getattr(found, "__dataclass_fields__", ())), name)

  def test_parameters(self):
    for name, node in self.nodes.items():
      if not isinstance(node, ast.FunctionDef):
        continue
      found = inspect.signature(getattr(belay, name)).parameters
      stub = [arg.arg for arg in node.args.args]
      stub += [arg.arg for arg in node.args.kwonlyargs if arg.arg in found]
      self.assertEqual(stub, [key for key in found if key != "options"])

  def test_options_are_known(self):
    with open(OPTIONS, encoding="utf-8") as file:
      fields = {node.name: {item.target.id for item in node.body}
                for node in ast.parse(file.read()).body
                if isinstance(node, ast.ClassDef)}
    saves = fields["SaveOptions"]
    for call, arguments, options, documented in (
        (belay.save, (0, {}), saves, saves),
        (belay.restore, ({},), fields["RestoreOptions"],
         fields["RestoreOptions"]),
        (belay.CheckpointManager, (), fields["ManagerOptions"] | saves,
         fields["ManagerOptions"] - {"metadata"}),
        (belay.AsyncSaver, None, fields["AsyncOptions"] | {"deadline_seconds"},
         fields["AsyncOptions"])):
      with self.assertRaises(belay.Error) as caught:
        call(COMM, *(() if arguments is None else ("none", *arguments)),
             no_such=1)
      known = str(caught.exception).split("(there are ")[1].split(")")[0]
      self.assertEqual(options, set(known.split(", ")))
      for option in documented:
        self.assertIn(option, call.__doc__)

  def test_everything_is_documented(self):
    for name in set(belay.__all__) - {"STOPPED_EXIT_CODE"}:
      found = getattr(belay, name)
      self.assertTrue(found.__doc__, name)
      self.assertEqual(found.__module__, "belay")
      if isinstance(found, type) and found.__init__ is not object.__init__:
        for key in public(vars(found)):
          item = vars(found)[key]
          if inspect.isfunction(item):
            self.assertTrue(item.__doc__, f"{name}.{key}")


if __name__ == "__main__":
  main()
