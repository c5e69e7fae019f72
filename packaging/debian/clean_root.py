"""Makes the root folder of a Debian that has little installed, out of the one
that this machine has.

    clean_root.py ROOT PACKAGE...

ROOT then has what these packages, all essential ones, and all they depend on
have brought, and a dpkg that knows of these packages only. A file is a hard
link where that is possible: ROOT is for reading, as the lower layer of an
overlay. What a package depends on is judged as apt does: the first alternative
that is installed. Recommended packages are left out.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

DPKG = "/var/lib/dpkg"


def installed():
  """Returns {name: fields} of the packages that dpkg has installed, fields with
  their text in status as "text"."""
  with open(f"{DPKG}/status", encoding="utf-8") as file:
    texts = file.read().split("\n\n")
  native = subprocess.run(["dpkg", "--print-architecture"], text=True,
                          check=True, capture_output=True).stdout.strip()
  packages = {}
  for text in texts:
    fields = dict(re.findall(r"^([\w-]+): (.*)$", text, re.M))
    if fields.get("Status") == "install ok installed":
      name = fields["Package"]
      if packages.get(name, {}).get("Architecture") != native:
        packages[name] = {**fields, "text": text}
  return packages


def relations(field):
  """Yields the names that satisfy one relation, for each one of a field."""
  for relation in field.split(","):
    if relation.strip():
      yield [re.match(r"[\w.+-]+", name.strip()).group()
             for name in relation.split("|")]


def closure(packages, wanted):
  """Returns the names of `wanted`, the essential packages, and what they need."""
  providers = {}
  for name, fields in packages.items():
    for names in relations(fields.get("Provides", "")):
      providers.setdefault(names[0], name)
  waiting = [name for name, fields in packages.items()
             if fields.get("Essential") == "yes"]
  for name in wanted:
    if name not in packages and name not in providers:
      sys.exit(f"not installed here: {name}")
    waiting.append(name)
  found = set()
  while waiting:
    name = waiting.pop()
    name = name if name in packages else providers.get(name)
    if name is None or name in found:
      continue
    found.add(name)
    for field in ("Depends", "Pre-Depends"):
      for names in relations(packages[name].get(field, "")):
        waiting += [one for one in names
                    if one in packages or one in providers][:1]
  return found


def info_files(name, architecture):
  return [path for stem in (name, f"{name}:{architecture}")
          for path in glob.glob(f"{DPKG}/info/{stem}.*")]


def link(path, root):
  """Puts a file of this machine, or an empty folder, into the root."""
  to = root + path
  if os.path.islink(path) or os.path.isfile(path):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    if not os.path.lexists(to):
      try:
        os.link(path, to, follow_symlinks=False)
      except OSError:  # another file system
        shutil.copy2(path, to, follow_symlinks=False)
  elif os.path.isdir(path):
    os.makedirs(to, exist_ok=True)


def make(root, packages, names):
  # Where /usr is merged, the links come first: paths go through them.
  for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
    if os.path.islink(f"/{name}"):
      os.makedirs(f"{root}/usr/{name}", exist_ok=True)
      link(f"/{name}", root)
  for name in sorted(names):
    for info in info_files(name, packages[name]["Architecture"]):
      link(info, root)
      if info.endswith(".list"):
        with open(info, encoding="utf-8") as file:
          for path in file.read().splitlines():
            link(path, root)
  for pattern in ("/etc/alternatives/*", f"{DPKG}/alternatives/*",
                  "/etc/passwd", "/etc/group", "/etc/ld.so.conf",
                  f"{DPKG}/arch", f"{DPKG}/diversions"):
    for path in glob.glob(pattern):
      link(path, root)
  for path in glob.glob(f"{DPKG}/alternatives/*"):
    with open(path, encoding="utf-8") as file:
      for line in file.read().splitlines():
        if os.path.islink(line) and os.path.exists(root + os.path.realpath(line)):
          link(line, root)
  for name in ("updates", "triggers"):
    os.makedirs(f"{root}{DPKG}/{name}", exist_ok=True)
  with open(f"{root}{DPKG}/status", "w", encoding="utf-8") as file:
    for name in sorted(names):
      file.write(packages[name]["text"].strip("\n") + "\n\n")
  for name in ("dev", "proc", "tmp"):
    os.makedirs(f"{root}/{name}", exist_ok=True)


def main():
  root, *wanted = sys.argv[1:]
  packages = installed()
  names = closure(packages, wanted)
  make(root, packages, names)
  print(f"{len(names)} packages of {len(packages)}")


if __name__ == "__main__":
  main()
