"""belay_c.h compiles as C99 and as C++17, and the library exports all of it.

argv: the folder of the public headers, the library, the compilers for C and
C++, and their flags.
"""

import os
import re
import subprocess
import sys

HEADER = "belay/belay_c.h"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def compile_alone(command, flags):
  """Returns what the compiler says about a program that is the header."""
  done = subprocess.run([*command, *WARNINGS, *flags, "-"], text=True,
                        input=f'#include "{HEADER}"\n', capture_output=True,
                        check=False)
  return done.stderr if done.returncode else ""


def declared(root):
  """Returns the names of the functions that the header declares."""
  with open(os.path.join(root, HEADER), encoding="utf-8") as file:
    text = re.sub(r"//[^\n]*", "", file.read())
  return set(re.findall(r"^[a-z][\w *]*?\b(belay_\w+)\(", text, re.M))


def exported(library):
  """Returns the names without a C++ mangling that begin as those of C do."""
  listed = subprocess.run(["nm", "-D", "--defined-only", library], text=True,
                          capture_output=True, check=True).stdout
  return set(re.findall(r" T (belay_\w+)$", listed, re.M))


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
  print(f"{len(names)} functions, {len(problems)} problems")
  sys.exit("\n".join(problems) or (0 if names else "no functions"))


if __name__ == "__main__":
  main()
