"""Which folder of src/ may include what. Arrows point down only."""

import re

import rule

PURE = {"core", "plan", "state", "graph", "format"}
_LOW = PURE | {"mpi", "hdf5", "storage", "pipeline"}
LAYERS = {
    "core": {"core"},
    "plan": {"core", "plan"},
    "state": {"core", "plan", "state"},
    "graph": {"core", "plan", "state", "graph"},
    "format": {"core", "plan", "format"},
    "mpi": {"core", "mpi"},
    "sharded_variable": {"core", "plan", "mpi", "sharded_variable"},
    "hdf5": {"core", "format", "hdf5"},
    "storage": {"core", "plan", "format", "mpi", "hdf5", "storage"},
    "read_hdf5": {"core", "hdf5", "storage", "read_hdf5"},
    "pipeline": _LOW,
    "save": _LOW | {"save"},
    "restore": _LOW | {"restore"},
    "reader": _LOW | {"save", "restore", "reader"},
    "objects": _LOW | {"save", "restore", "objects"},
    "safetensors": _LOW | {"save", "restore", "safetensors"},
    "manager": _LOW | {"save", "restore", "objects", "manager"},
    "c": {"core", "mpi", "c"},
}
_MPI = set(LAYERS) - PURE
SYSTEM = {
    "mpi.h": _MPI,
    "hdf5.h": {"hdf5", "storage"},
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
  folder = path.rpartition("/")[0]
  return folder if folder in LAYERS else None


def _layer_problem(layer, header, mpi):
  other = layer_of(header)
  if other and other not in LAYERS[layer]:
    return f"{layer} may not include {other}"
  if header.startswith("workload/"):
    return f"{layer} may not include workload"
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
      elif path.startswith("tools/workload/"):
        if layer_of(header) not in (None, "core", "plan"):
          problem = f"workload may not include {layer_of(header)}"
      elif (path.startswith(USERS) and path not in INNER_LOOPS
            and layer_of(header)):
        problem = "sees public headers only"
      if problem:
        problems.append(f"{path}:{line}: {header}: {problem}")
  return problems


_COMM = {"include/belay/comm.h": "#include <mpi.h>\n",
         "include/belay/manager/job.h": '#include "belay/comm.h"\n'}
BAD = [
    ({"src/core/a.cc": '#include "plan/plan.h"\n'}, "may not include plan"),
    ({"src/mpi/a.h": '#include "hdf5/file.h"\n'}, "may not include hdf5"),
    ({"src/storage/a.cc": '#include "save/a.h"\n'}, "include save"),
    ({"src/save/a.cc": '#include "restore/a.h"\n'}, "include restore"),
    ({"src/plan/a.cc": "#include <mpi.h>\n"}, "may not include <mpi.h>"),
    ({"src/save/a.cc": "#include <hdf5.h>\n"}, "include <hdf5.h>"),
    ({"src/state/a.cc": '#include "belay/manager/job.h"\n', **_COMM},
     "which belay/manager/job"),
    ({"src/new/a.cc": "\n"}, "no layer"),
    ({"src/save/a.cc": '#include "workload/a.h"\n'}, "include workload"),
    ({"include/belay/a.h": "#include <hdf5.h>\n"}, "<hdf5.h>"),
    ({"include/belay/a.h": "  # include <mpi.h>\n"}, "only comm.h"),
    ({"src/c/a.cc": '#include "save/a.h"\n'}, "c may not include save"),
    ({"include/belay/a.h": '#include "core/fault.h"\n'}, "internal one"),
    ({"tools/a.cc": '#include "hdf5/file.h"\n'}, "public headers only"),
    ({"tools/workload/a.cc": '#include "mpi/comm.h"\n'}, "include mpi"),
    ({"examples/x/a.cc": '#include "core/fault.h"\n'}, "public headers only"),
]
GOOD = [
    {"src/storage/a.cc": '#include <hdf5.h>\n#include "hdf5/file.h"\n'},
    {"src/core/a.cc": '#include <vector>\n// #include "plan/plan.h"\n'},
    {"tools/workload/a.cc": '#include "plan/a.h"\n'},
    {"tools/a.cc": '#include "belay/manager/job.h"\n#include "CLI/CLI.hpp"\n', **_COMM},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
