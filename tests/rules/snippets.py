"""Code that a page of the documentation calls a copy is one.

A paragraph that ends in "word for word from [NAME](PATH):" is followed by C++
that stands in that file, but for how far it is indented.
"""

import os
import re

import rule

_COPY = re.compile(r"word for word\s+from\s+\[[^\]]*\]\(([^()\s]+)\):\n\n"
                   r"```cpp\n(.*?)^```$", re.M | re.S)
_CLAIM = re.compile(r"word for word\s+from\s+\[")


def _plain(code):
  """Returns the lines without indentation and without empty ones."""
  lines = (line.strip() for line in code.split("\n"))
  return "\n" + "\n".join(line for line in lines if line) + "\n"


def check(tree):
  problems = []
  for path, text in tree.items():
    if not path.endswith(".md"):
      continue
    copies = _COPY.findall(text)
    if len(copies) != len(_CLAIM.findall(text)):
      problems.append(f"{path}: a copy is announced, but no C++ follows")
    for target, code in copies:
      source = os.path.normpath(os.path.join(os.path.dirname(path), target))
      if source not in tree:
        problems.append(f"{path}: no such file: {target}")
      elif _plain(code) not in _plain(tree[source]):
        problems.append(f"{path}: this is not what {source} says: "
                        f"{code.strip().splitlines()[0]}")
  return problems


_PAGE = "It is word for word\nfrom [a](../tests/a.cc):\n\n```cpp\n%s```\n"
BAD = [
    ({"docs/a.md": _PAGE % "int a;\n", "tests/a.cc": "int b;\n"},
     "this is not what tests/a.cc says: int a;"),
    ({"docs/a.md": _PAGE % "int a;\n", "tests/a.cc": "int a;  // here\n"},
     "this is not what tests/a.cc says"),
    ({"docs/a.md": _PAGE % "int a;\n"}, "no such file: ../tests/a.cc"),
    ({"docs/a.md": "word for word from [a](a.cc).\n"}, "no C++ follows"),
]
GOOD = [
    {"docs/a.md": _PAGE % "int a;\n\nint b;\n" + "```cpp\nanything\n```\n",
     "tests/a.cc": "namespace {\n  int a;\n  int b;\n}\n"},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
