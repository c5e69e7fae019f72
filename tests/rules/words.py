"""No path of one machine, no unfinished work, no dead link."""

import os
import re

import rule

# Written in pieces, so that this file passes its own rule.
_HOMES = "|".join(["work", "root", r"home/\w+", "Users/" + r"\w+"])
MACHINE_PATH = re.compile(r"(?<![\w.}/$-])/(?:" + _HOMES + r")(?![\w-])")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"
                        r"|^\s*// ?\.\.\.$")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def _words(path, text):
  problems = []
  for number, line in enumerate(text.split("\n"), 1):
    if match := MACHINE_PATH.search(line):
      problems.append(f"{path}:{number}: path of one machine: {match.group()}")
    if match := UNFINISHED.search(line):
      problems.append(f"{path}:{number}: unfinished: {match.group().strip()}")
  return problems


def anchors(text):
  """Returns the anchors of a Markdown file's headings."""
  found = set()
  for title in re.findall(r"^#+ +(.*?)\s*$", _FENCE.sub("", text), re.M):
    plain = re.sub(r"[^\w\- ]", "", title.lower())
    found.add(plain.replace(" ", "-"))
  return found


def _link_problem(path, target, tree, folders):
  """Returns what is wrong with one link, or None."""
  if re.match(r"[a-z]+:", target):
    return None
  name, _, anchor = target.partition("#")
  file = path if not name else os.path.normpath(
      os.path.join(os.path.dirname(path), name))
  if file in folders:
    return None
  if file not in tree:
    return f"{path}: dead link: {target}"
  if anchor and file.endswith(".md") and anchor not in anchors(tree[file]):
    return f"{path}: no such heading: {target}"
  return None


def check(tree):
  folders = {"."}
  for path in tree:
    while path := os.path.dirname(path):
      folders.add(path)
  problems = []
  for path, text in tree.items():
    problems += _words(path, text)
    if path.endswith(".md"):
      links = _LINK.findall(_FENCE.sub("", text))
      found = (_link_problem(path, link, tree, folders) for link in links)
      problems += [problem for problem in found if problem]
  return problems


BAD = [
    ({"a.cc": 'Open("/' + 'work/main");\n'}, "a.cc:1: path of one machine"),
    ({"a.md": "see /" + "root/x\n"}, "path of one machine"),
    ({"a.sh": "\ncd /" + "home/me/belay\n"}, "a.sh:2: path of one machine"),
    ({"a.cc": "// TO" + "DO: finish\n"}, "unfinished"),
    ({"a.h": " private:\n  // ..." + "\n"}, "a.h:2: unfinished"),
    ({"docs/a.md": "[b](b.md)\n"}, "dead link: b.md"),
    ({"docs/a.md": "[b](../b.md#two)\n", "b.md": "# One\n"}, "no such heading"),
    ({"docs/a.md": "# One\n[b](#two)\n"}, "no such heading: #two"),
]
GOOD = [
    {"docs/a.md": "# One: a `b`\n[b](../c/b.md) [c](#one-a-b) [d](../c)\n"
                  "[e](https://example.org/x)\n```\n[x](y)\n```\n",
     "c/b.md": "the network/" + "root group, $HOME/" + "work, --as-root\n"},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
