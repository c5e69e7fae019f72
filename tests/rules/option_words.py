"""Errors name options of C++ only in words that other languages replace.

src/core/program_words.h has what stands in their place. A phrase there must be
one of a message, and a message must not name an option that it lacks.
"""

import re

import rule

WORDS = "src/core/program_words.h"
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Literals that a message joins, also as arguments of Cat.
_SEAM = re.compile(r'(?<!\\)"\s*,?\s*\n?\s*"')
_NAME = re.compile(r"\b(?:Save|Restore|Manager|Async|Export|Import|Copy)\w*"
                   r"(?:Options|Args)\b|\b\w+(?:Layout|Ranks|Sharing)::k\w+"
                   r"|\bkLatestStep\b")


def _strings(text):
  """Returns the literals of a source, joined where a message joins them."""
  code = "\n".join(line for line in text.split("\n")
                   if not line.lstrip().startswith(("//", "#")))
  return [one.replace('\\"', '"')
          for one in _LITERAL.findall(_SEAM.sub("", code))]


def check(tree):
  if WORDS not in tree:
    return []
  table = re.findall(r"OptionWords\{\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+),",
                     tree[WORDS])
  phrases = ["".join(_LITERAL.findall(one)).replace('\\"', '"')
             for one in table]
  messages = [(path, one) for path, text in tree.items()
              if path.startswith("src/") and path.endswith(".cc")
              for one in _strings(text)]
  problems = [f"{WORDS}: no message says \"{phrase}\"" for phrase in phrases
              if not any(phrase in one for _, one in messages)]
  for path, message in messages:
    rest = message
    for phrase in phrases:
      rest = rest.replace(phrase, "")
    if match := _NAME.search(rest):
      problems.append(f"{path}: {WORDS} lacks \"{match.group()}\", which a "
                      f"message names: {message}")
  return problems


_TABLE = {WORDS: 'OptionWords{"set SaveOptions.overwrite", "a", nullptr},\n'}
_SAYS = 'Error("no; " +\n  "set SaveOptions"\n  ".overwrite");\n'
BAD = [
    (_TABLE, 'no message says "set SaveOptions.overwrite"'),
    ({**_TABLE, "src/a/a.cc": _SAYS + 'Error("RestoreOptions::x")\n'},
     'lacks "RestoreOptions"'),
    ({**_TABLE, "src/a/a.cc": _SAYS + 'Error("is ReadSharing::kOnce")\n'},
     'lacks "ReadSharing::kOnce"'),
]
GOOD = [
    {**_TABLE, "src/a/a.cc": _SAYS + "// RestoreOptions::x\nRestoreOptions x;"},
    {**_TABLE, "src/a/a.cc": 'Cat("no; set ",\n  "SaveOptions.overwrite")\n'},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
