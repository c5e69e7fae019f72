"""A function uses the early-return macros of its tag, never the other's.

`Collective.` functions return agreed errors only, so that all ranks return
together; `Local.` and `Rank 0 only.` functions, and functions without a tag,
return their own. The tag is the one of the definition or of the declaration.
A lambda is work that a collective function hands to one agreement: it may use
either family, but not both.
"""

import re

import cpp
import rule

CHECKED = re.compile(r"src/(mpi|storage|pipeline|save|restore|reader|objects|safetensors|manager|c)"
                     r"/.*\.cc")
_MACRO = re.compile(r"\bBELAY_(?:RETURN_IF|ASSIGN_OR_RETURN)\w*")


def families(body):
  """Returns which of "agreed" and "local" a text uses."""
  return {"agreed" if name.endswith("AGREED") else "local"
          for name in _MACRO.findall(body)}


def declared_tags(tree):
  """Returns {function name: set of tags} of all headers."""
  declared = {}
  for path, text in tree.items():
    if path.endswith(".h") and path.startswith(("src/", "include/")):
      for function in cpp.functions(text):
        found = cpp.tags(function.comment) or cpp.tags(function.class_comment)
        declared.setdefault(function.name, set()).update(found)
  return declared


def allowed_families(function, declared):
  tags = set(cpp.tags(function.comment) or declared.get(function.name, ()))
  allowed = {"agreed"} if "Collective" in tags else set()
  if not tags or tags - {"Collective"}:
    allowed.add("local")  # overloads may have several tags
  return allowed


def check(tree):
  declared = declared_tags(tree)
  problems = []
  for path, text in tree.items():
    if not CHECKED.fullmatch(path):
      continue
    for function in cpp.functions(text):
      body, *lambdas = cpp.split_lambdas(function.body or "")
      where = f"{path}:{function.line}: {function.name}"
      for family in families(body) - allowed_families(function, declared):
        problems.append(f"{where} returns {family} errors: wrong for its tag "
                        "(none counts as `Local.`)")
      if any(len(families(part)) > 1 for part in lambdas):
        problems.append(f"{where}: a lambda mixes local and agreed errors")
  return problems


_SAVE_H = {"include/belay/save.h":
           "namespace belay {\n// Saves. Collective.\nStatus Save(int n = 1);\n"
           "class F {\n public:\n  // Reads. Local.\n  Status Read();\n};\n}\n"}
BAD = [
    ({"src/storage/a.cc": "Status Save(int n) {\n  BELAY_RETURN_IF_ERROR(A());\n"
                        "  return Ok();\n}\n", **_SAVE_H},
     "a.cc:1: Save returns local"),
    ({"src/storage/a.cc": "Status F::Read() {\n  BELAY_ASSIGN_OR_RETURN_AGREED("
                        "int a, A());\n}\n", **_SAVE_H}, "F::Read returns agre"),
    ({"src/mpi/a.cc": "namespace {\n// Rank 0 only.\nStatus A() {\n"
                           "  BELAY_RETURN_IF_AGREED(B());\n}\n}\n"},
     "A returns agreed"),
    ({"src/save/a.cc": "Status A(int b) {\n  if (b) {\n"
                             "    BELAY_RETURN_IF_AGREED(B());\n  }\n}\n"},
     "none counts as `Local.`"),
    ({"src/save/a.cc":
      "// Collective.\nStatus A() {\n  return OnRoot(t, [&]() -> Status {\n"
      "    BELAY_RETURN_IF_ERROR(B());\n    BELAY_RETURN_IF_AGREED(C());\n"
      "    return Ok();\n  });\n}\n"}, "mixes"),
]
GOOD = [
    {"src/storage/a.cc": "Status Save(int n) {\n  int a[2] = {1, 2};\n"
                       "  BELAY_RETURN_IF_AGREED(OnRoot(t, [&] {\n"
                       "    BELAY_RETURN_IF_ERROR(B(a[0]));\n"
                       "    return Ok();\n  }));\n}\n"
                       "Status F::Read() {\n  // BELAY_RETURN_IF_AGREED(x)\n"
                       "  BELAY_RETURN_IF_ERROR(B());\n}\n", **_SAVE_H},
    {"src/hdf5/a.cc": "Status A() {\n  BELAY_RETURN_IF_AGREED(B());\n}\n"},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
