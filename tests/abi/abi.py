"""The shared library exports what the public headers declare, and what it has
exported before.

    abi.py SOURCE ALL LIBRARY [--update]

ALL is the library of the same objects that exports everything; its names that
`include/belay` declares have to be the patterns of src/exports.map, by which
LIBRARY is linked. What LIBRARY exports has to be the list tests/abi/symbols.txt.
`--update` writes both files; what has changed is then seen in the diff.

It sees names and types of arguments, not the layout of classes.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "rules"))
import cpp

_HEAD = """\
# What libbelay.so.{version} exports; tests/abi/abi.py compares and writes it.
"""
_MAP = """\
# The functions that include/belay declares and libbelay.so exports: all else is
# hidden. tests/abi/abi.py compares this with the headers, and writes it.
{{
  global:
    belay_*;
    extern "C++" {{
{patterns}
    }};
  local: *;
}};
"""


def declared(source):
  """Returns the names that the public headers declare, F or Class::F, and the
  namespaces in them, which the names do not have."""
  names, spaces = set(), set()
  for folder, _, files in os.walk(os.path.join(source, "include", "belay")):
    for name in files:
      if name.endswith(".h"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
          text = file.read()
        names |= {f.name for f in cpp.functions(text)}
        spaces |= set(re.findall(r"^namespace (\w+) \{", text, re.M))
  return names, spaces - {"belay"}


def defined(library):
  """Returns what the library exports, demangled, with the letters of nm."""
  listed = subprocess.run(["nm", "-DC", "--defined-only", library], text=True,
                          capture_output=True, check=True).stdout
  return set(re.findall(r"^[0-9a-f]+ (\w) (.*)$", listed, re.M))


def patterns_of(everything, names, spaces):
  """Returns the lines of exports.map for what the headers declare. What is
  inline is not among it: each program has a copy of its own."""
  patterns = set()
  for kind, symbol in everything:
    if symbol.startswith("vtable for belay::"):
      name = symbol.removeprefix("vtable for belay::")
      if any(is_declared(f"belay::{name}::{one.split('::')[-1]}()", names, spaces)
             for one in names):
        patterns |= {f'"{what} for belay::{name}";'
                     for what in ("vtable", "typeinfo", "typeinfo name")}
    elif kind in "TRDB" and is_declared(symbol, names, spaces):
      patterns.add(pattern(symbol))
  return patterns


def pattern(symbol):
  """Returns what stands for a function and its overloads in exports.map: its
  name, and then no other name. A script knows no "(", "~" or "="."""
  name = symbol[:symbol.index("(")].replace("[abi:cxx11]", "")
  return re.sub(r"[^\w:]", "?", name) + "[!_a-zA-Z0-9]*;"


def is_declared(symbol, names, spaces):
  """Returns whether the headers declare a C++ function."""
  if not symbol.startswith("belay::") or "(" not in symbol:
    return False
  name = symbol[len("belay::"):symbol.index("(")].replace("[abi:cxx11]", "")
  # The reader of headers calls all operators the same, and names no arguments
  # of templates.
  name = re.sub(r"\boperator\W.*", "operator", name)
  while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
    name = shorter
  space, _, rest = name.partition("::")
  return name in names or space in spaces and rest in names


def differences(wanted, found, only_wanted, only_found):
  """Returns a line for each element that only one of the sets has."""
  return ([f"{only_wanted}: {one}" for one in sorted(wanted - found)] +
          [f"{only_found}: {one}" for one in sorted(found - wanted)])


def check_map(text, patterns):
  """Returns what exports.map lacks, and what it has too much."""
  listed = set(re.findall(r"^ {6}(\S.*)$", text, re.M))
  return differences(patterns, listed,
                     "src/exports.map lacks", "src/exports.map, not declared")


def check_symbols(text, version, symbols):
  """Returns what was added and removed since symbols.txt was written."""
  head, *listed = text.rstrip("\n").split("\n")
  problems = differences(symbols, set(listed), "added", "removed")
  if head + "\n" != _HEAD.format(version=version):
    problems.append(f"tests/abi/symbols.txt is of another library: {head}")
  elif any(line.startswith("removed") for line in problems):
    problems.append(
        f"programs that are linked with libbelay.so.{version} may need what was "
        "removed: keep it, or raise the major version of the project, which is "
        "the SOVERSION; only what was never released may go without that")
  return problems


def _path(source, *names):
  return os.path.join(source, *names)


def prove():
  """This test can fail."""
  text = _HEAD.format(version=0) + "f()\ng()\n"
  assert check_symbols(text, "0", {"f()", "g()"}) == []
  assert check_symbols(text, "0", {"f()", "g()", "h()"}) == ["added: h()"]
  assert check_symbols(text, "0", {"f()"})[0] == "removed: g()"
  assert "SOVERSION" in check_symbols(text, "0", {"f()"})[1]
  assert "another library" in check_symbols(text, "1", {"f()", "g()"})[0]
  assert check_map("      a*;\n", {"a*;"}) == []
  assert check_map("      b*;\n", {"a*;"}) == [
      "src/exports.map lacks: a*;", "src/exports.map, not declared: b*;"]
  assert is_declared("belay::rows::F[abi:cxx11](int)", {"F"}, {"rows"})
  assert not is_declared("belay::h5::F(int)", {"F"}, {"rows"})
  assert is_declared("belay::C::operator=(C&&)", {"C::operator"}, set())
  assert is_declared("belay::C<belay::D<int> >::F()", {"C::F"}, set())
  assert pattern("belay::C::operator=(C&&)").startswith("belay::C::operator?[")
  assert patterns_of({("T", "belay::F(int)"), ("T", "belay::G()"),
                      ("W", "belay::C::f()"), ("V", "vtable for belay::D"),
                      ("V", "vtable for belay::C")}, {"F", "C::f"}, set()) == {
      "belay::F[!_a-zA-Z0-9]*;", '"vtable for belay::C";',
      '"typeinfo for belay::C";', '"typeinfo name for belay::C";'}


def main():
  prove()
  source, everything, library, *update = sys.argv[1:]
  version = re.search(r"\.so\.(\d+)", os.path.realpath(library)).group(1)
  map_path = _path(source, "src", "exports.map")
  symbols_path = _path(source, "tests", "abi", "symbols.txt")
  names, spaces = declared(source)
  patterns = patterns_of(defined(everything), names, spaces)
  symbols = {symbol for _, symbol in defined(library)}
  if update:
    with open(map_path, "w", encoding="utf-8") as file:
      file.write(_MAP.format(patterns="\n".join(
          "      " + one for one in sorted(patterns))))
    with open(symbols_path, "w", encoding="utf-8") as file:
      file.write(_HEAD.format(version=version) +
                 "".join(f"{one}\n" for one in sorted(symbols)))
    print("wrote both files; if exports.map has changed, build and update again")
    return
  problems = []
  with open(map_path, encoding="utf-8") as file:
    problems += check_map(file.read(), patterns)
  with open(symbols_path, encoding="utf-8") as file:
    problems += check_symbols(file.read(), version, symbols)
  if problems:
    problems.append("if this is as it should be, write it down: python3 " +
                    " ".join([*sys.argv, "--update"]))
  print(f"{len(symbols)} symbols, {len(patterns)} patterns, "
        f"{len(problems)} problems")
  sys.exit("\n".join(problems) or (0 if symbols and patterns else "nothing"))


if __name__ == "__main__":
  main()
