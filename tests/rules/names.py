"""No two types of the library have the same name.

Two classes of one name in one namespace break the one-definition rule: the
linker keeps one copy of each inline function of both, and which one is chance.
No compiler sees it. Types in anonymous namespaces may have any name.
"""

import re

import cpp
import rule

CHECKED = re.compile(r"(src|include)/.*\.(h|cc)")
_NAMESPACE = re.compile(r"^(inline )?namespace ?(?P<name>[\w:]*) ?\{", re.M)
# Neither specialisations nor the definitions of nested types.
_TYPE = re.compile(r"^(?:struct|class|enum class|enum struct|union) "
                   r"(?P<name>\w+)(?: final)?\s*(?::[^:;{(][^;{(]*)?\{", re.M)


def types(text):
  """Yields (namespace, name, line) of each type outside other types."""
  blank = cpp.blank(text)
  spaces = [(m.start(), cpp.skip(blank, m.end() - 1), m["name"])
            for m in _NAMESPACE.finditer(blank)]
  for match in _TYPE.finditer(blank):
    around = [name for start, end, name in spaces
              if start < match.start() < end]
    if "" in around:
      continue
    line = blank.count("\n", 0, match.start()) + 1
    yield "::".join(around), match["name"], line


def check(tree):
  problems = []
  first = {}
  for path, text in sorted(tree.items()):
    if not CHECKED.fullmatch(path):
      continue
    for namespace, name, line in types(text):
      where = first.setdefault((namespace, name), f"{path}:{line}")
      if where != f"{path}:{line}":
        problems.append(f"{path}:{line}: {name} is a type of {where} already")
  return problems


BAD = [
    ({"src/a/a.h": "namespace belay {\nstruct A {\n  int b;\n};\n}\n",
      "src/b/b.h": "namespace belay {\nclass A final : public B {\n};\n}\n"},
     "b.h:2: A is a type of src/a/a.h:2 already"),
    ({"include/belay/a.h": "namespace belay {\nenum class A : int { kB };\n}\n",
      "src/b/b.cc": "namespace belay {\nstruct A {\n};\n}\n"}, "b.cc:2: A"),
]
GOOD = [
    {"src/a/a.h": "namespace belay {\nstruct A {\n};\nstruct B;\n}\n",
     "src/b/b.cc": "namespace belay {\nnamespace {\nstruct A {\n};\n}\n"
                   "struct B {\n  struct A {\n  };\n};\n}\n",
     "src/d/d.h": "namespace belay {\nstruct B::A {\n};\n"
                  "template <>\nstruct C<int> {\n};\n"
                  "template <>\nstruct C<bool> {\n};\n}\n",
     "src/c/c.h": "namespace belay::h5 {\nstruct A {\n};\n}\n",
     "tools/t.cc": "namespace belay {\nstruct A {\n};\n}\n"},
    {"src/a/a.h": "// struct A {\nnamespace belay {\nstruct A x = {};\n}\n"},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
