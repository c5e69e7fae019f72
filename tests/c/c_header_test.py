"""belay_c.h compiles as C99 and as C++17, the library exports all of it, and
docs/c.md lists the options that src/c reads.

argv: the folder of the public headers, the library, the compilers for C and
C++, and their flags.
"""

import os
import re
import subprocess
import sys

HEADER = "belay/belay_c.h"
PARTS = ("belay/c/base.h", "belay/c/state.h")  # which it includes
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def compile_alone(command, flags):
  """Returns what the compiler says about a program that is the header."""
  done = subprocess.run([*command, *WARNINGS, *flags, "-"], text=True,
                        input=f'#include "{HEADER}"\n', capture_output=True,
                        check=False)
  return done.stderr if done.returncode else ""


def declared(root):
  """Returns the names of the functions that the header declares."""
  names = set()
  for header in (HEADER, *PARTS):
    with open(os.path.join(root, header), encoding="utf-8") as file:
      text = re.sub(r"//[^\n]*", "", file.read())
    names |= set(re.findall(r"^[a-z][\w *]*?\b(belay_\w+)\(", text, re.M))
  return names


def exported(library):
  """Returns the names without a C++ mangling that begin as those of C do."""
  listed = subprocess.run(["nm", "-D", "--defined-only", library], text=True,
                          capture_output=True, check=True).stdout
  return set(re.findall(r" T (belay_\w+)$", listed, re.M))


def options(root):
  """Returns the names that src/c reads and those in the tables of docs/c.md."""
  source = os.path.join(root, "..", "src", "c", "options.cc")
  page = os.path.join(root, "..", "docs", "c.md")
  with open(source, encoding="utf-8") as file:
    read = set(re.findall(r'(?:\(\s*|, )"(\w+)",', file.read()))
  with open(page, encoding="utf-8") as file:
    lines = [line for line in file if line.startswith("| `belay_")]
  listed = set()
  for line in lines:
    names = re.sub(r"\([^)]*\)", "", line.split("|")[2])
    listed |= set(re.findall(r"`(\w+)`", names))
  return read, listed


def main():
  root, library, c_compiler, cxx_compiler, *flags = sys.argv[1:]
  flags.append("-DOMPI_SKIP_MPICXX")
  problems = [said for said in (
      compile_alone([c_compiler, "-std=c99", "-x", "c"], flags),
      compile_alone([cxx_compiler, "-std=c++17", "-x", "c++"], flags)) if said]
  names, symbols = declared(root), exported(library)
  problems += [f"{name} is declared and not exported"
               for name in sorted(names - symbols)]
  problems += [f"{name} is exported and not declared"
               for name in sorted(symbols - names)]
  read, listed = options(root)
  problems += [f"docs/c.md: the option {name} is only there or only in src/c"
               for name in sorted(read ^ listed)]
  print(f"{len(names)} functions, {len(read)} options, {len(problems)} problems")
  sys.exit("\n".join(problems) or (0 if names else "no functions"))


if __name__ == "__main__":
  main()
