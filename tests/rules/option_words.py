"""Options have a row in src/core/option_table.h, and messages take names from it.

The rows of a struct are all its fields, in order. A name that stands in a literal
would be that of C++ in every language.
"""

import re

import rule

WORDS = ("src/core/option_table.h", "src/core/program_words.h",
         "src/safetensors/export_options.h")
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


_TABLE = re.compile(r"struct OptionTable<(\w+)> \{(.*?)\n\};", re.S)
_STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.S | re.M)
_FIELD = re.compile(r"(\w+)(?:\s*=[^;]*)?;")


def _differing_rows(tree):
  structs = {name: _FIELD.findall(re.sub(r"//[^\n]*", "", fields))
             for path, text in tree.items() if path.startswith("include/")
             for name, fields in _STRUCT.findall(text)}
  return [f"{path}: the rows of {name} are not its fields in order: {rows}, "
          f"{structs.get(name)}"
          for path in WORDS for name, text in _TABLE.findall(tree.get(path, ""))
          if (rows := re.findall(r'Option\(\s*"(\w+)"', text))
          != structs.get(name)]


def check(tree):
  return _differing_rows(tree) + [f"{path}: names {match.group()} in a literal: {text}"
          for path, source in tree.items()
          if path.startswith("src/") and path.endswith((".cc", ".h"))
          and path not in WORDS
          for text in _strings(source) if (match := _NAME.search(text))
          and "/" not in text]


BAD = [
    ({"src/a/a.cc": 'Error("no; set "\n  "SaveOptions"\n  ".overwrite");\n'},
     "names SaveOptions in a literal"),
    ({"src/a/a.cc": 'Error("is ReadSharing::kOnce")\n'},
     "names ReadSharing::kOnce"),
    ({"include/a.h": "struct A {\n  int x = 1;  // y;\n  int y;\n};\n",
      WORDS[0]: 'struct OptionTable<A> {\n Option("y"), Option("x")\n};\n'},
     "rows of A are not its fields"),
]
GOOD = [
    {"src/a/a.cc": "// RestoreOptions::x\nRestoreOptions x;"},
    {"include/a.h": "struct A {\n  int x = 1;  // y;\n  int y;\n};\n",
     WORDS[0]: 'struct OptionTable<A> {\n Option("x"), Option("y")\n};\n'},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
