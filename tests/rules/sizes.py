"""No function over 60 lines."""

import ast

import cpp
import rule

MAX_FUNCTION = 60


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


def check(tree):
  return [f"{path}:{line}: {name} has {length} lines: at most {MAX_FUNCTION}"
          for path, text in tree.items()
          for name, line, length in function_lengths(path, text)
          if length > MAX_FUNCTION]


def _cc(lines):
  return "namespace belay {\nint F(\n    int a) {\n" + "  a++;\n" * lines + \
      "  return a;\n}\nint G() { return 1; }\n}\n"


BAD = [
    ({"src/core/a.cc": _cc(57)}, "a.cc:2: F has 61 lines"),
    ({"tests/a_test.cc": "TEST(A, B) {\n" + "  F();\n" * 60 + "}\n"}, "62 lin"),
    ({"tests/a.py": "def f():\n" + "  g()\n" * 60}, "f has 61 lines"),
]
GOOD = [
    {"src/core/a.cc": _cc(56), "tests/a.py": "def f():\n" + "  g()\n" * 59},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
