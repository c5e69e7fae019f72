"""Every public function says whether it is Collective, Rank 0 only or Local.

Holds for the public functions of the public headers. A tag in a class comment
holds for the members without one. Exempt: constructors, destructors, operators,
friends, and one-line inline functions without a comment. In src/, a function
without a tag is local.
"""

import re

import cpp
import rule

TAGGED = re.compile(r"include/belay/.*\.h")


def is_exempt(function):
  if function.special or not function.public:
    return True
  inline = function.body is not None and function.line == function.end_line
  return inline and not function.comment


def check(tree):
  problems = []
  for path, text in tree.items():
    if not TAGGED.fullmatch(path):
      continue
    for function in cpp.functions(text):
      if is_exempt(function):
        continue
      found = (cpp.tags(function.comment) or cpp.tags(function.class_comment))
      if len(found) != 1:
        problems.append(f"{path}:{function.line}: {function.name} has "
                        f"{len(found)} of the tags `Collective.`, "
                        "`Rank 0 only.`, `Local.`: need 1")
  return problems


BAD = [
    ({"include/belay/a.h": "// Adds. Errors: none.\nint Add(int a);\n"},
     "a.h:2: Add has 0"),
    ({"include/belay/a.h": "namespace belay {\nStatus Write();\n}\n"},
     "Write has 0"),
    ({"include/belay/a.h": "class F {\n public:\n  // Local. Collective.\n"
                    "  Status Close();\n};\n"}, "F::Close has 2"),
    ({"include/belay/a.h": "// A function that is `Local.` in quotes.\n"
                           "template <typename T>\nT Get(const T& a = {});\n"},
     "a.h:2: Get has 0"),
    ({"include/belay/a.h": "struct S {\n  // Counts. Local.\n  int n();\n\n"
                           "  // Sums.\n  int m();\n};\n"}, "S::m has 0"),
]
GOOD = [
    {"include/belay/a.h": "// Local.\nint A();\nint B();\n\n"
                          "// A thing.\nclass C {\n public:\n"
                          "  // Makes one.\n  C();\n  ~C();\n"
                          "  int n() const { return n_; }\n private:\n"
                          "  // Helps.\n  void Help();\n  int n_ = 0;\n};\n"},
    {"include/belay/b.h": "// All of it is C calls. Local.\nstruct Io {\n"
                      "  Status Open(const std::function<void(int)>& f = {});\n"
                      "  std::function<int(int)> hook;\n};\n"
                      "// Waits.\n// Errors: Internal. Collective: agreed.\n"
                      "Status Wait();\n"},
    {"src/storage/a.h": "// No tag needed here.\nint A();\n"},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
