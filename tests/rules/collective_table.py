"""Every public function stands in docs/collective.md, under its own tag.

A function is named there in code style, with or without its class. Where it
stands in a table row that has a tag of its own, the tag has to be the one of
the header.
"""

import re

import cpp
import rule
import tags

PAGE = "docs/collective.md"
_ROW_TAG = re.compile(r"\|\s*\**(collective|local|rank 0(?: only)?)\b", re.I)


def public_functions(tree):
  """Returns {name: set of tags} of the functions that need a tag."""
  found = {}
  for path, text in tree.items():
    if path.startswith("include/belay/") and path.endswith(".h"):
      for f in cpp.functions(text):
        if not tags.is_exempt(f):
          tag = cpp.tags(f.comment) or cpp.tags(f.class_comment)
          found.setdefault(f.name, set()).update(tag)
  return found


def lines_of(name, page):
  """Returns the lines of the page that name the function in code style."""
  own = name.split("::")[-1]
  word = re.compile(r"(?<![\w:])(?:" + re.escape(name) + "|" + own + r")\b")
  return [line for line in page.split("\n")
          if any(word.search(code) for code in re.findall(r"`([^`]+)`", line))]


def row_tag(line):
  match = _ROW_TAG.search(line) if line.startswith("|") else None
  return {"c": "Collective", "l": "Local", "r": "Rank 0 only"}[
      match.group(1)[0].lower()] if match else None


def check(tree):
  if PAGE not in tree:
    return []
  problems = []
  for name, expected in public_functions(tree).items():
    lines = lines_of(name, tree[PAGE])
    if not lines:
      problems.append(f"{PAGE}: {name} is missing")
    stated = {row_tag(line) for line in lines} - {None}
    if stated and not stated & expected:
      problems.append(f"{PAGE}: {name} is listed as {sorted(stated)}: "
                      f"the header says {sorted(expected)}")
  return problems


_HEADER = {"include/belay/a.h": "// Saves. Collective.\nStatus Save();\n"
                                "class F {\n public:\n  F();\n  // Local.\n"
                                "  int Size();\n  int n() { return 1; }\n};\n"}
BAD = [
    ({PAGE: "| `Size` | local |\nSave in plain text\n", **_HEADER},
     "Save is missing"),
    ({PAGE: "| `Save()` | collective |\n| `G::Size` | local |\n", **_HEADER},
     "F::Size is missing"),
    ({PAGE: "| `Save` | Local |\n| `F::Size` | Local |\n", **_HEADER},
     "Save is listed as ['Local']"),
]
GOOD = [
    _HEADER,
    {PAGE: "| `Save(...)` | **Collective** | local files |\n`F::Size()`\n",
     **_HEADER},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
