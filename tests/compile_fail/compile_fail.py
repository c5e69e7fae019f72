"""What must not compile is refused, with a text that says why.

argv: a source, the compiler and its flags. A case N of the source is
"#if CASE == N  // text" (or "#elif"), inside of a function: the compiler has to
fail there and to say the text. Case 0 has to compile, and so does no case beyond
the last. All cases are compiled at once, each as a block of its own; one of
which the compiler then says nothing, since it has said the same before, is
compiled alone.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

CASE = re.compile(r"#(?:el)?if CASE == (\d+) +// (.+)$")


def precompile(command, text, folder):
  """Returns the flags that give every case what the source includes, parsed
  once."""
  header = os.path.join(folder, "included.h")
  with open(header, "w", encoding="utf-8") as file:
    file.writelines(re.findall(r"^#include .*\n", text, re.MULTILINE))
  subprocess.run([*command, "-x", "c++-header", header], check=True)
  return ["-include", header, "-x", "c++"]


def compile_case(command, source, case):
  """Returns what the compiler says about a case, "" if it compiles."""
  done = subprocess.run([*command, f"-DCASE={case}", source], text=True,
                        capture_output=True, check=False)
  return "" if done.returncode == 0 else done.stderr or "it failed"


def as_blocks(text):
  """Returns the source with every case as a block, and the case of each line."""
  lines, cases, case = [], [], 0
  for line in text.splitlines():
    found = CASE.match(line)
    if found:
      lines.append("} {" if case else "{")
      case = int(found.group(1))
    elif case and line.startswith("#endif"):
      lines.append("}")
      case = 0
    elif line.startswith(("#el", "#error")):  # no such case
      lines.append("")
    else:
      lines.append(line)
    cases.append(case)
  return "\n".join(lines) + "\n", cases


def errors_by_case(command, text, folder):
  """Returns what the compiler says about each case when it sees them all."""
  source = os.path.join(folder, "all.cc")
  blocks, cases = as_blocks(text)
  with open(source, "w", encoding="utf-8") as file:
    file.write(blocks)
  said = compile_case([*command, "-fmax-errors=0"], source, 0)
  errors, required_at = {}, 0
  for line in said.splitlines():
    here = re.match(re.escape(source) + r":(\d+):", line)
    at = int(here.group(1)) if here else required_at
    if "required from here" in line and here:
      required_at = at
    elif re.search(r": In (\w+ )*(function|instantiation|lambda)", line):
      required_at = 0
    elif " error: " in line and at:
      errors.setdefault(cases[at - 1], []).append(line)
  return errors


def problem_of(case, text, said):
  """Returns what is wrong with a case, "" if nothing."""
  if not said:
    return f"case {case} compiles (need: {text})"
  errors = [line for line in said.splitlines()
            if "error:" in line or ": In instantiation of" in line]
  if not any(text in line for line in errors):
    return f"case {case} (need: {text}):\n" + "\n".join(errors)
  return ""


def main():
  source, compiler, *flags = sys.argv[1:]
  with open(source, encoding="utf-8") as file:
    text = file.read()
  cases = [match.groups() for match in map(CASE.match, text.splitlines())
           if match]
  if [number for number, _ in cases] != [
      str(i + 1) for i in range(len(cases))] or not cases:
    sys.exit(f"{source}: the cases are not 1, 2, ...")
  command = [compiler, "-std=c++20", *flags]
  with (tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
    command += ["-fsyntax-only", *precompile(command, text, folder)]
    errors = errors_by_case(command, text, folder)
    alone = [number for number, said in cases
             if not any(said in line for line in errors.get(int(number), []))]
    numbers = [0, len(cases) + 1, *map(int, alone)]
    said = dict(zip(numbers, pool.map(
        lambda case: compile_case(command, source, case), numbers)))
  problems = [said[0] and f"case 0 does not compile:\n{said[0]}",
              problem_of(len(cases) + 1, "no such case", said[len(cases) + 1])]
  problems += [problem_of(number, text, said[int(number)])
               for number, text in cases if number in alone]
  problems = [problem for problem in problems if problem]
  print(f"{len(cases)} cases, {len(alone)} of them compiled alone, "
        f"{len(problems)} problems")
  sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
  main()
