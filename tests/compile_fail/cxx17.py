"""A compiler of C++17 says first that belay needs C++20, whatever is included.

Only the header of the C interface is for any compiler.

argv: the folder of the public headers, the compiler and its flags.
"""

import concurrent.futures
import os
import subprocess
import sys

TEXT = "belay needs C++20"


def first_error(command, header):
  """Returns the first error of a program that includes the header."""
  done = subprocess.run([*command, "-x", "c++", "-"], text=True, check=False,
                        input=f'#include "belay/{header}"\n',
                        capture_output=True)
  lines = [line for line in done.stderr.splitlines() if "error:" in line]
  return lines[0] if lines else ""


def main():
  root, compiler, *flags = sys.argv[1:]
  command = [compiler, "-std=c++17", "-fsyntax-only", "-Wfatal-errors", *flags]
  headers = [name for name in sorted(os.listdir(os.path.join(root, "belay")))
             if name.endswith(".h") and name != "belay_c.h"]
  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    said = list(pool.map(lambda h: first_error(command, h), headers))
  bad = [f"{header}: {error or 'compiles'}"
         for header, error in zip(headers, said) if TEXT not in error]
  print(f"{len(headers)} headers, {len(bad)} problems")
  sys.exit("\n".join(bad) or (0 if headers else "no headers"))


if __name__ == "__main__":
  main()
