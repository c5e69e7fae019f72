"""docs/parity.md names tests that exist, and every row says something.

A row of its tables is: a test of the source, then our tests in code style as
`Suite.Name`, or "none" and the reason.
"""

import re

import rule

PAGE = "docs/parity.md"
_TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\)",
                   re.M)
_NAME = re.compile(r"`(\w+\.\w+)`")


def tests_of(tree):
  """Returns the "Suite.Name" of every test in the tree."""
  return {".".join(match) for path, text in tree.items()
          if path.endswith("_test.cc") for match in _TEST.findall(text)}


def rows(page):
  """Returns (line number, first cell, rest) of every row but headings."""
  found = []
  for number, line in enumerate(page.split("\n"), 1):
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if (not line.startswith("|") or set(line) <= set("|- ")
        or cells[-1] == "here"):
      continue
    found.append((number, cells[0], " ".join(cells[1:])))
  return found


def check(tree):
  if PAGE not in tree:
    return []
  tests = tests_of(tree)
  problems = []
  for number, source, ours in rows(tree[PAGE]):
    names = _NAME.findall(ours)
    problems += [f"{PAGE}:{number}: there is no test {name}"
                 for name in names if name not in tests]
    if not names and not re.match(r"none[:,] \w+", ours):
      problems.append(f"{PAGE}:{number}: {source}: neither a test nor a reason")
  return problems


_TESTS = {"tests/a_test.cc": "TEST(Suite, Name) {\nTEST_F(Other,\n    Long) {\n"}
_HEAD = "| there | here |\n| --- | --- |\n"
BAD = [
    ({**_TESTS, PAGE: _HEAD + "| a | `Suite.Nam` |\n"}, "no test Suite.Nam"),
    ({**_TESTS, PAGE: _HEAD + "| a | |\n"}, "neither a test nor a reason"),
    ({**_TESTS, PAGE: _HEAD + "| a | none |\n"}, "neither a test nor a reason"),
    ({PAGE: _HEAD + "| a | b | `Suite.Name` |\n"}, "no test Suite.Name"),
]
GOOD = [
    {**_TESTS, PAGE: _HEAD + "| a | `Suite.Name`, `Other.Long` |\n"},
    {**_TESTS, PAGE: "Text\n\n" + _HEAD + "| a | none: no graphs here |\n"},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
