"""What the rule tests share: the files of the tree, and the main function.

A rule is a function from {path: text} to a list of problems. Before it looks
at the tree it has to find the problem in every bad sample and none in every
good one, so a rule that has gone blind fails.
"""

import os
import subprocess
import sys


def _paths_of_git(root):
  """Returns what git tracks or would track, or None outside a checkout."""
  if not os.path.exists(os.path.join(root, ".git")):
    return None
  command = ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z",
             "--cached", "--others", "--exclude-standard"]
  try:
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout.split("\0")
  except (OSError, subprocess.CalledProcessError):
    return None


def _paths_of_walk(root):
  paths = []
  for folder, folders, names in os.walk(root):
    folders[:] = [f for f in folders
                  if f not in (".git", "__pycache__", "build", "env", ".venv")
                  and not f.startswith("build-")]
    paths += [os.path.relpath(os.path.join(folder, n), root) for n in names]
  return paths


def read_tree(root):
  """Returns {path: text} of every text file, paths relative to `root`."""
  paths = _paths_of_git(root)
  if paths is None:
    paths = _paths_of_walk(root)
  tree = {}
  for path in sorted(set(paths)):
    full = os.path.join(root, path)
    if not os.path.isfile(full) or os.path.islink(full):
      continue
    with open(full, "rb") as file:
      content = file.read()
    if b"\0" not in content:
      tree[path] = content.decode("utf-8", errors="replace")
  return tree


def self_test(check, bad, good):
  """Returns what is wrong with the rule itself."""
  wrong = []
  for tree, expected in bad:
    found = check(tree)
    if not any(expected in problem for problem in found):
      wrong.append(f"does not find '{expected}' in {sorted(tree)}: {found}")
  for tree in good:
    if found := check(tree):
      wrong.append(f"complains about a good sample: {found}")
  return wrong


def main(check, bad, good):
  """Runs the self-test, then the rule over the tree named by argv[1]."""
  if wrong := self_test(check, bad, good):
    sys.exit("\n".join(["the rule's self-test failed:"] + wrong))
  tree = read_tree(sys.argv[1])
  if not any(path.startswith("include/belay/") for path in tree):
    sys.exit(f"no include/belay/ in {sys.argv[1]}: not this repository")
  problems = check(tree)
  print(f"{len(tree)} files, {len(bad) + len(good)} samples, "
        f"{len(problems)} problems")
  sys.exit("\n".join(problems) or 0)
