"""A public function uses the early-return macros of its tag.

Inside of src/ the compiler says which macro is right: a collective function
returns Agreed<T>, which takes no Status of one rank. Public functions return a
Status: those that are `Collective.` may return agreed errors only, and no other
function that returns a Status may return them. A lambda is work that a collective
function hands to one agreement: it may use either family, but not both.
"""

import re

import cpp
import rule

CHECKED = re.compile(r"src/.*\.cc")
_MACRO = re.compile(r"\bBELAY_(?:RETURN_IF|ASSIGN_OR_RETURN)\w*")


def families(body):
  """Returns which of "agreed" and "local" a text uses."""
  return {"agreed" if name.endswith("AGREED") else "local"
          for name in _MACRO.findall(body)}


def public_tags(tree):
  """Returns {function name: set of tags} of the public headers."""
  declared = {}
  for path, text in tree.items():
    if path.startswith("include/") and path.endswith(".h"):
      for function in cpp.functions(text):
        found = cpp.tags(function.comment) or cpp.tags(function.class_comment)
        declared.setdefault(function.name, set()).update(found)
  return declared


def allowed_families(function, lines, declared):
  """Returns the families that a function may use outside of lambdas."""
  if "Agreed<" in lines[function.line - 1]:
    return {"agreed", "local"}  # the compiler looks at it
  tags = declared.get(function.name, set()) | set(cpp.tags(function.comment))
  allowed = {"agreed"} if "Collective" in tags else set()
  if not tags or tags - {"Collective"}:
    allowed.add("local")  # overloads may have several tags
  return allowed


def check(tree):
  declared = public_tags(tree)
  problems = []
  for path, text in tree.items():
    if not CHECKED.fullmatch(path):
      continue
    lines = text.split("\n")
    if "Agreement::" in text and not path.startswith("src/mpi/"):
      problems.append(f"{path}: only src/mpi makes agreed errors")
    for function in cpp.functions(text):
      body, *lambdas = cpp.split_lambdas(function.body or "")
      where = f"{path}:{function.line}: {function.name}"
      for family in families(body) - allowed_families(function, lines, declared):
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
BAD.append(({"src/save/a.cc": "Agreed<> A() { return Agreement::Error(b); }\n"},
            "only src/mpi"))
GOOD = [
    {"src/storage/a.cc": "Status Save(int n) {\n  int a[2] = {1, 2};\n"
                       "  BELAY_RETURN_IF_AGREED(OnRoot(t, [&] {\n"
                       "    BELAY_RETURN_IF_ERROR(B(a[0]));\n"
                       "    return Ok();\n  }));\n}\n"
                       "Status F::Read() {\n  // BELAY_RETURN_IF_AGREED(x)\n"
                       "  BELAY_RETURN_IF_ERROR(B());\n}\n", **_SAVE_H},
    {"src/mpi/b.cc": "Agreed<> A() {\n  BELAY_RETURN_IF_AGREED(B());\n}\n"},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
