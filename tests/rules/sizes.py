"""No file over 600 lines, no function over 60, no folder of src over 30 files."""

import ast
import collections
import os

import cpp
import rule

MAX_FILE, MAX_FUNCTION, MAX_FOLDER = 600, 60, 30
SOURCES = (".h", ".cc", ".py", ".sh", ".cmake", "CMakeLists.txt", ".sbatch")


def function_lengths(path, text):
  """Returns (name, first line, lines) of every function."""
  if path.endswith(".py"):
    return [(node.name, node.lineno, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
  if path.endswith((".h", ".cc")):
    return [(f.name, f.line, f.end_line - f.line + 1)
            for f in cpp.functions(text)]
  return []


def full_folders(tree):
  """Returns a problem for each folder of src/ with too many sources."""
  counts = collections.Counter(os.path.dirname(path) for path in tree
                               if path.startswith("src/") and
                               path.endswith((".h", ".cc")))
  return [f"{folder}: {count} files: at most {MAX_FOLDER}"
          for folder, count in counts.items() if count > MAX_FOLDER]


def check(tree):
  problems = full_folders(tree)
  for path, text in tree.items():
    if not path.endswith(SOURCES) and path != "dev":
      continue
    lines = len(text.splitlines())
    if lines > MAX_FILE:
      problems.append(f"{path}: {lines} lines: at most {MAX_FILE}")
    for name, line, length in function_lengths(path, text):
      if length > MAX_FUNCTION:
        problems.append(f"{path}:{line}: {name} has {length} lines: "
                        f"at most {MAX_FUNCTION}")
  return problems


def _cc(lines):
  return "namespace belay {\nint F(\n    int a) {\n" + "  a++;\n" * lines + \
      "  return a;\n}\nint G() { return 1; }\n}\n"


BAD = [
    ({"src/base/a.cc": _cc(57)}, "a.cc:2: F has 61 lines"),
    ({"tests/a_test.cc": "TEST(A, B) {\n" + "  F();\n" * 60 + "}\n"}, "62 lin"),
    ({"src/base/a.h": "\n" * 601}, "a.h: 601 lines"),
    ({"dev": "#\n" * 601}, "dev: 601 lines"),
    ({"tests/a.py": "def f():\n" + "  g()\n" * 60}, "f has 61 lines"),
    ({f"src/base/a{i}.h": "" for i in range(31)}, "src/base: 31 files"),
]
GOOD = [
    {"src/base/a.cc": _cc(56), "tests/a.py": "def f():\n" + "  g()\n" * 59,
     "src/base/a.h": "\n" * 600, "docs/a.md": "\n" * 1000},
    {f"src/base/{'b/' * (i % 2)}a{i}.h": "" for i in range(60)},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
