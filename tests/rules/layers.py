"""Which folder of src/ may include what. Arrows point down only."""

import re

import rule

PURE = {"base", "bytes", "geometry", "tensor", "transform", "plan", "values",
        "graph", "format", "hdf5_format", "job", "manager/rules", "safetensors/plan",
        "io/files", "io/steps", "workload"}
_VALUES = {"base", "bytes", "geometry", "plan"}
_WRITES = PURE - {"workload"} | {"mpi", "hdf5", "io", "pipeline"}
LAYERS = {
    "base": {"base"},
    "bytes": {"base", "bytes"},
    "geometry": {"base", "bytes", "geometry"},
    "tensor": {"base", "bytes", "geometry", "tensor"},
    "transform": {"base", "bytes", "geometry", "tensor", "transform"},
    "plan": _VALUES,
    "workload": _VALUES | {"workload"},
    "values": _VALUES | {"transform", "values"},
    "graph": _VALUES | {"transform", "values", "graph"},
    "format": _VALUES | {"format"},
    "job": {"base", "geometry", "job"},
    "manager/rules": {"base", "bytes", "geometry", "manager/rules"},
    "safetensors/plan": _VALUES | {"safetensors/plan"},
    "mpi": {"base", "bytes", "mpi"},
    "variable": _VALUES | {"tensor", "mpi", "variable"},
    "hdf5_format": {"base", "bytes", "geometry", "hdf5_format"},
    "hdf5": {"base", "bytes", "geometry", "hdf5_format", "hdf5"},
    "io/files": _VALUES | {"format", "io/files"},
    "io/steps": _VALUES | {"format", "manager/rules", "io/files", "io/steps"},
    "io": _VALUES | {"format", "hdf5_format", "mpi", "hdf5", "io/files", "io/steps", "io"},
    "read_hdf5": {"base", "bytes", "hdf5", "io", "read_hdf5"},
    "pipeline": _WRITES,
    "save": _WRITES | {"save"},
    "async": _WRITES | {"save", "async"},
    "restore": _WRITES | {"restore"},
    "reader": _WRITES | {"save", "restore", "reader"},
    "objects": _WRITES | {"save", "async", "restore", "objects"},
    "safetensors": _WRITES | {"save", "restore", "safetensors"},
    "manager": _WRITES | {"save", "async", "restore", "objects", "manager"},
    "c": {"base", "bytes", "geometry", "mpi", "c"},
}
_MPI = set(LAYERS) - PURE
SYSTEM = {
    "mpi.h": _MPI,
    "hdf5.h": {"hdf5", "io"},
}
PUBLIC_MPI = ("include/belay/comm.h", "include/belay/belay_c.h")
USERS = ("tools/", "examples/", "benchmarks/", "tests/consumer/")
# What looks inside beside the tests: it times, simulates or prints what no
# public function does.
INNER_LOOPS = ("benchmarks/micro.cc", "benchmarks/workloads_chunks.cc",
               "benchmarks/workloads_gpt2.cc", "benchmarks/workloads_graph.cc",
               "benchmarks/workloads_models.cc", "tools/number_text.h",
               "tools/simulate.cc")


def includes(text):
  """Returns (line number, header) of each #include."""
  pattern = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
  return [(i, match.group(1)) for i, line in enumerate(text.split("\n"), 1)
          if (match := pattern.match(line))]


def reaches_mpi(tree):
  """Returns the public headers that include <mpi.h>, also through others."""
  reached = {"mpi.h"}
  while True:
    more = {path.removeprefix("include/") for path, text in tree.items()
            if path.startswith("include/belay/")
            and any(header in reached for _, header in includes(text))}
    if more <= reached:
      return reached
    reached |= more


def layer_of(path):
  """Returns the layer that a path below src/ belongs to, or None."""
  folders = path.split("/")[:-1]
  for count in range(len(folders), 0, -1):
    if (layer := "/".join(folders[:count])) in LAYERS:
      return layer
  return None


def _layer_problem(layer, header, mpi):
  other = layer_of(header)
  if other and other not in LAYERS[layer]:
    return f"{layer} may not include {other}"
  if header in SYSTEM and layer not in SYSTEM[header]:
    return f"{layer} may not include <{header}>"
  if layer in PURE and header in mpi:
    return f"{layer} may not include <mpi.h>, which {header} does"
  return None


def _public_problem(path, header):
  if layer_of(header):
    return "a public header may not include an internal one"
  if header == "hdf5.h":
    return "a public header may not include <hdf5.h>"
  if header == "mpi.h" and path not in PUBLIC_MPI:
    return "only comm.h and belay_c.h may include <mpi.h>"
  return None


def check(tree):
  mpi = reaches_mpi(tree)
  problems = []
  for path, text in tree.items():
    if not path.endswith((".h", ".cc")):
      continue
    in_src = path.startswith("src/")
    layer = layer_of(path[len("src/"):]) if in_src else None
    if in_src and not layer:
      problems.append(f"{path}: a folder that is no layer")
      continue
    for line, header in includes(text):
      problem = None
      if layer:
        problem = _layer_problem(layer, header, mpi)
      elif path.startswith("include/"):
        problem = _public_problem(path, header)
      elif (path.startswith(USERS) and path not in INNER_LOOPS
            and layer_of(header)):
        problem = "sees public headers only"
      if problem:
        problems.append(f"{path}:{line}: {header}: {problem}")
  return problems


_COMM = {"include/belay/comm.h": "#include <mpi.h>\n",
         "include/belay/manager/job.h": '#include "belay/comm.h"\n'}
BAD = [
    ({"src/base/a.cc": '#include "plan/plan.h"\n'}, "may not include plan"),
    ({"src/mpi/a.h": '#include "hdf5/file.h"\n'}, "may not include hdf5"),
    ({"src/io/a.cc": '#include "save/a.h"\n'}, "include save"),
    ({"src/io/files/a.cc": '#include "io/steps/a.h"\n'}, "include io"),
    ({"src/save/a.cc": '#include "restore/a.h"\n'}, "include restore"),
    ({"src/plan/save/a.cc": "#include <mpi.h>\n"}, "may not include <mpi.h>"),
    ({"src/save/a.cc": "#include <hdf5.h>\n"}, "include <hdf5.h>"),
    ({"src/values/a.cc": '#include "belay/manager/job.h"\n', **_COMM},
     "which belay/manager/job"),
    ({"src/manager/rules/a.cc": "#include <mpi.h>\n"}, "include <mpi.h>"),
    ({"src/new/a.cc": "\n"}, "no layer"),
    ({"src/io/a.cc": '#include "workload/a.h"\n'}, "include workload"),
    ({"src/save/a.cc": '#include "workload/a.h"\n'}, "include workload"),
    ({"include/belay/a.h": "#include <hdf5.h>\n"}, "<hdf5.h>"),
    ({"include/belay/a.h": "  # include <mpi.h>\n"}, "only comm.h"),
    ({"src/c/a.cc": '#include "save/a.h"\n'}, "c may not include save"),
    ({"include/belay/a.h": '#include "base/fault.h"\n'}, "internal one"),
    ({"tools/a.cc": '#include "hdf5/file.h"\n'}, "public headers only"),
    ({"examples/x/a.cc": '#include "base/fault.h"\n'}, "public headers only"),
]
GOOD = [
    {"src/io/index/a.cc": '#include <hdf5.h>\n#include "hdf5/file.h"\n'},
    {"src/manager/a.cc": '#include "manager/rules/a.h"\n'},
    {"src/base/a.cc": '#include <vector>\n// #include "plan/plan.h"\n'},
    {"tools/a.cc": '#include "belay/manager/job.h"\n#include "CLI/CLI.hpp"\n', **_COMM},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
