"""Every public header compiles alone: it includes all that it uses.

A header that the source of its name includes first is compiled alone by every
build that compiles sources one by one (preset dev), with the flags of its
layer; the other public ones are compiled here. For all of them, those of the
library's own too, includes.py looks whether the names that they use are
included, those of the common headers too, which this parses once like the
build.

argv: the tree, the compiler, then per folder of headers one argument
"FOLDER=flag,flag,..." with its include flags.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

import includes


def precompile(compiler, folder):
  """Returns the flags that give a source the common headers."""
  common = os.path.join(folder, "common.h")
  with open(common, "w", encoding="utf-8") as file:
    file.writelines(f"#include <{header}>\n" for header in includes.HEADERS)
  subprocess.run([compiler, "-std=c++20", "-x", "c++-header", common],
                 check=True)
  return ["-include", common]


def compile_alone(compiler, flags, header):
  """Returns what the compiler says about `header` on its own, "" if fine."""
  command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
             "-Werror", "-x", "c++", *flags, "-"]
  done = subprocess.run(command, input=f'#include "{header}"\n', text=True,
                        capture_output=True, check=False)
  return "" if done.returncode == 0 else f"{header}:\n{done.stderr}"


def self_test(compiler):
  """Returns whether a good header passes and a bad one does not."""
  with tempfile.TemporaryDirectory() as folder:
    good, bad = os.path.join(folder, "good.h"), os.path.join(folder, "bad.h")
    with open(good, "w", encoding="utf-8") as file:
      file.write("#include <deque>\ninline std::deque<int> A() { return {}; }\n")
    with open(bad, "w", encoding="utf-8") as file:
      file.write("inline std::deque<int> A() { return {}; }\n")
    return (not compile_alone(compiler, [], good)
            and "bad.h" in compile_alone(compiler, [], bad))


def first_includes(root):
  """Returns what the sources below src/ include first, as written."""
  found = set()
  for folder, _, names in os.walk(os.path.join(root, "src")):
    for name in names:
      if not name.endswith(".cc"):
        continue
      with open(os.path.join(folder, name), encoding="utf-8") as file:
        include = re.search(r'^#include ["<](.+)[">]', file.read(), re.M)
      if include:
        found.add(include.group(1))
  return found


def jobs(root, arguments):
  """Returns (flags, header) of every header in the folders and below."""
  found = []
  for argument in arguments:
    folder, _, flags = argument.partition("=")
    flags = [flag for flag in flags.split(",") if flag]
    for inner, _, names in os.walk(os.path.join(root, folder)):
      found += [(flags, os.path.join(inner, name))
                for name in sorted(names) if name.endswith(".h")]
  return found


def main():
  root, compiler, *arguments = sys.argv[1:]
  if not self_test(compiler):
    sys.exit(f"the rule's self-test failed with {compiler}")
  found = jobs(root, arguments)
  if not found:
    sys.exit(f"no headers in {root}")
  compiled = first_includes(root)
  left = [job for job in found
          if not any(job[1].endswith("/" + name) for name in compiled)]
  with (tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
    common = precompile(compiler, folder)
    said = pool.map(
        lambda job: compile_alone(compiler, common + job[0], job[1]), left)
    problems = [text for text in said if text]
  print(f"{len(found)} headers, {len(left)} without a source that begins with "
        f"them, {len(problems)} problems")
  sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
  main()
