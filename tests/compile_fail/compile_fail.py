"""What must not compile is refused, with a text that says why.

argv: a source, the compiler and its flags. A case N of the source is
"#if CASE == N  // text" (or "#elif"): with CASE=N the compiler has to fail and
to say the text. Case 0 has to compile, and so does no case beyond the last.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile


def precompile(command, text, folder):
  """Returns the flags that give every case what the source includes, parsed
  once."""
  header = os.path.join(folder, "included.h")
  with open(header, "w", encoding="utf-8") as file:
    file.writelines(re.findall(r"^#include .*\n", text, re.MULTILINE))
  subprocess.run([*command, "-x", "c++-header", header], check=True)
  return ["-include", header, "-x", "c++"]


def compile_case(command, case):
  """Returns what the compiler says about a case, "" if it compiles."""
  done = subprocess.run([*command, f"-DCASE={case}"], text=True,
                        capture_output=True, check=False)
  return "" if done.returncode == 0 else done.stderr or "it failed"


def problem_of(case, text, said):
  """Returns what is wrong with a case, "" if nothing."""
  if not said:
    return f"case {case} compiles (need: {text})"
  errors = [line for line in said.splitlines() if "error:" in line]
  if not any(text in line for line in errors):
    return f"case {case} (need: {text}):\n" + "\n".join(errors)
  return ""


def main():
  source, compiler, *flags = sys.argv[1:]
  with open(source, encoding="utf-8") as file:
    text = file.read()
  cases = re.findall(r"^#(?:el)?if CASE == (\d+) +// (.+)$", text, re.MULTILINE)
  if [number for number, _ in cases] != [
      str(i + 1) for i in range(len(cases))] or not cases:
    sys.exit(f"{source}: the cases are not 1, 2, ...")
  command = [compiler, "-std=c++20", *flags]
  numbers = range(len(cases) + 2)
  with (tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
    command += ["-fsyntax-only", *precompile(command, text, folder), source]
    said = list(pool.map(lambda case: compile_case(command, case), numbers))
  problems = [said[0] and f"case 0 does not compile:\n{said[0]}",
              problem_of(len(cases) + 1, "no such case", said[-1])]
  problems += [problem_of(number, text, said[int(number)])
               for number, text in cases]
  problems = [problem for problem in problems if problem]
  print(f"{len(cases)} cases, {len(problems)} problems")
  sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
  main()
