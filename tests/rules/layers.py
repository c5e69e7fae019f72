"""Which folder may include what. Arrows between the layers point down only."""

import re

import rule

PURE = {"base", "geometry", "model", "types", "graph", "job", "manager",
        "safetensors", "tensor", "transform", "workload"}
LAYERS = {
    "base": {"base"},
    "geometry": {"base", "geometry"},
    "model": {"base", "geometry", "model"},
    "workload": {"base", "geometry", "model", "workload"},
    "transform": {"base", "geometry", "tensor", "transform"},
    "types": {"base", "geometry", "model", "transform", "types"},
    "graph": {"base", "geometry", "model", "transform", "types", "graph"},
    "job": {"base", "geometry", "job"},
    "manager": {"base", "geometry", "manager"},
    "safetensors": {"base", "geometry", "model", "safetensors"},
    "tensor": {"base", "geometry", "tensor"},
    "parallel": {"base", "parallel"},
    "variable": {"base", "geometry", "model", "tensor", "parallel", "variable"},
    "h5": {"base", "geometry", "h5"},
    "store": {"base", "geometry", "model", "manager", "safetensors",
              "parallel", "h5", "store"},
    "checkpoint": PURE - {"workload"} | {"parallel", "h5", "store",
                                         "checkpoint"},
}
SYSTEM = {
    "mpi.h": {"parallel", "variable", "h5", "store", "checkpoint"},
    "hdf5.h": {"h5", "store"},
}
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


def _layer_problem(layer, header, mpi):
  top = header.split("/")[0]
  if top in LAYERS and top not in LAYERS[layer]:
    return f"{layer} may not include {top}"
  if header in SYSTEM and layer not in SYSTEM[header]:
    return f"{layer} may not include <{header}>"
  if layer in PURE and header in mpi:
    return f"{layer} may not include <mpi.h>, which {header} does"
  return None


def _public_problem(path, header):
  if header.split("/")[0] in LAYERS:
    return "a public header may not include an internal one"
  if header == "hdf5.h":
    return "a public header may not include <hdf5.h>"
  if header == "mpi.h" and path != "include/belay/comm.h":
    return "only comm.h may include <mpi.h>"
  return None


def check(tree):
  mpi = reaches_mpi(tree)
  problems = []
  for path, text in tree.items():
    if not path.endswith((".h", ".cc")):
      continue
    layer = path.split("/")[1] if path.startswith("src/") else None
    if layer and layer not in LAYERS:
      problems.append(f"{path}: a folder that is no layer")
      continue
    for line, header in includes(text):
      problem = None
      if layer:
        problem = _layer_problem(layer, header, mpi)
      elif path.startswith("include/"):
        problem = _public_problem(path, header)
      elif (path.startswith(USERS) and path not in INNER_LOOPS
            and header.split("/")[0] in LAYERS):
        problem = "sees public headers only"
      if problem:
        problems.append(f"{path}:{line}: {header}: {problem}")
  return problems


_COMM = {"include/belay/comm.h": "#include <mpi.h>\n",
         "include/belay/job.h": '#include "belay/comm.h"\n'}
BAD = [
    ({"src/base/a.cc": '#include "model/plan.h"\n'}, "may not include model"),
    ({"src/parallel/a.h": '#include "h5/file.h"\n'}, "may not include h5"),
    ({"src/store/a.cc": '#include "checkpoint/a.h"\n'}, "include checkpoint"),
    ({"src/model/a.cc": "#include <mpi.h>\n"}, "may not include <mpi.h>"),
    ({"src/checkpoint/a.cc": "#include <hdf5.h>\n"}, "include <hdf5.h>"),
    ({"src/types/a.cc": '#include "belay/job.h"\n', **_COMM}, "which belay/job"),
    ({"src/new/a.cc": "\n"}, "no layer"),
    ({"src/store/a.cc": '#include "workload/a.h"\n'}, "include workload"),
    ({"src/checkpoint/a.cc": '#include "workload/a.h"\n'}, "include workload"),
    ({"include/belay/a.h": "#include <hdf5.h>\n"}, "<hdf5.h>"),
    ({"include/belay/a.h": "  # include <mpi.h>\n"}, "only comm.h"),
    ({"include/belay/a.h": '#include "base/fault.h"\n'}, "internal one"),
    ({"tools/a.cc": '#include "h5/file.h"\n'}, "public headers only"),
    ({"examples/x/a.cc": '#include "base/fault.h"\n'}, "public headers only"),
]
GOOD = [
    {"src/store/a.cc": '#include <hdf5.h>\n#include "h5/file.h"\n'},
    {"src/base/a.cc": '#include <vector>\n// #include "model/plan.h"\n'},
    {"tools/a.cc": '#include "belay/job.h"\n#include "CLI/CLI.hpp"\n', **_COMM},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
