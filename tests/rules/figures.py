"""A figure that names its row of the benchmark is the one in the table.

Pages write `0.74 (`hdf5.large.rows`)`; docs/performance.md has what the benchmark
printed.
"""

import re

import rule

_TABLE = "docs/performance.md"
_ROW = re.compile(r"^ +([a-z]\w*(?:\.\w+)+) +(\d+\.\d+) \[", re.M)
_QUOTED = re.compile(r"(\d+\.\d+)\s+\(`([a-z]\w*(?:\.\w+)+)`\)")


def check(tree):
  printed = dict(_ROW.findall(tree.get(_TABLE, "")))
  problems = []
  for path, text in tree.items():
    if not path.endswith(".md"):
      continue
    for figure, row in _QUOTED.findall(text):
      if row not in printed:
        problems.append(f"{path}: {_TABLE} has no row {row}")
      elif printed[row] != figure:
        problems.append(f"{path}: {row} is {printed[row]} in {_TABLE}, "
                        f"and {figure} here")
  return problems


_SAMPLE = "    a.b    0.74 [0.62-0.81]      <= 1.00  ok\n"
BAD = [
    ({"README.md": "takes 0.71\n(`a.b`)\n", _TABLE: _SAMPLE},
     "README.md: a.b is 0.74 in docs/performance.md, and 0.71 here"),
    ({"docs/a.md": "takes 0.71 (`a.c`)\n", _TABLE: _SAMPLE}, "no row a.c"),
]
GOOD = [
    {"README.md": "takes 0.74 (`a.b`), `a.b` 1.2 (x)\n", _TABLE: _SAMPLE},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
