"""Times the Python package against a C++ program that does the same.

  python3 python_bench.py PEER MODEL.tsv [--mpirun "mpirun -n"] [--ranks 2]

runs both in turns under mpirun, and prints ratios of medians. PEER is
build/release/benchmarks/python_peer; PYTHONPATH names the package.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

BARS = {"save.model": 1.05, "restore.model": 1.05, "save.small": 1.3,
        "restore.small": None}
IMPORT_BAR = 2.0


def measure(directory, model, repetitions):
  """The work of a rank: prints "NAME SECONDS..." on rank 0, as the peer."""
  import shutil
  import numpy
  from mpi4py import MPI
  import belay
  comm = MPI.COMM_WORLD

  def rows_of(shape):
    begin, end = (shape[0] * (comm.rank + one) // comm.size for one in (0, 1))
    return belay.Piece(numpy.ones((end - begin, *shape[1:]), "f4"), shape,
                       (begin, *[0] * (len(shape) - 1)))

  def timed(name, call):
    seconds = []
    for _ in range(repetitions + 1):
      comm.Barrier()
      begin = time.perf_counter()
      call()
      comm.Barrier()
      seconds.append(time.perf_counter() - begin)
    if comm.rank == 0:
      print(name, *seconds[1:], flush=True)

  with open(model, encoding="utf-8") as table:
    tensors = [line.rstrip("\n").split("\t") for line in table][1:]
  states = {
      "model": {name: rows_of(tuple(map(int, shape.split(","))))
                for name, _, shape, *_ in tensors},
      "small": {f"a{i}": rows_of((256,)) for i in range(1000)}}
  for name in list(states):
    state = states.pop(name)
    timed(f"save.{name}", lambda state=state: belay.save(
        comm, directory, 0, state, overwrite=True, durable=False))
    timed(f"restore.{name}",
          lambda state=state: belay.restore(comm, directory, state, step=0))
    comm.Barrier()
    if comm.rank == 0:
      shutil.rmtree(directory)
    comm.Barrier()


def medians(mpirun, program, directory, model, repetitions):
  done = subprocess.run([*mpirun, *program, directory, model, str(repetitions)],
                        check=True, stdout=subprocess.PIPE, text=True)
  return {line.split()[0]: statistics.median(map(float, line.split()[1:]))
          for line in done.stdout.splitlines() if line}


def seconds_of(code):
  begin = time.perf_counter()
  subprocess.run([sys.executable, "-c", code], check=True)
  return time.perf_counter() - begin


def say(name, ratio, bar, detail):
  judged = "" if bar is None else f" (bar {bar}: " + (
      "ok)" if ratio <= bar else "MISSED)")
  print(f"{name:14} {ratio:6.3f}{judged}  {detail}", flush=True)


def compare(flags):
  mpirun = [*shlex.split(flags.mpirun), str(flags.ranks)]
  contenders = {"C++": [flags.peer],
                "Python": [sys.executable, __file__, "--measure"]}
  found = {name: [] for name in contenders}
  with tempfile.TemporaryDirectory(dir=flags.dir) as folder:
    for _ in range(flags.rounds):
      for name, program in contenders.items():
        found[name].append(medians(mpirun, program, os.path.join(folder, "run"),
                                   flags.model, flags.repetitions))
  for name, bar in BARS.items():
    ratio = statistics.median(ours[name] / theirs[name] for ours, theirs in
                              zip(found["Python"], found["C++"]))
    milliseconds = (f"{which} " + " ".join(f"{1e3 * one[name]:.1f}"
                                           for one in found[which])
                    for which in contenders)
    say(name, ratio, bar, "; ".join(milliseconds) + " ms")
  codes = ["import mpi4py.MPI, numpy", "import mpi4py.MPI, numpy, belay"]
  times = [[seconds_of(code) for code in codes]
           for _ in range(2 * flags.rounds + 1)][1:]
  ratio = statistics.median(ours / theirs for theirs, ours in times)
  say("import", ratio, IMPORT_BAR, "; ".join(
      f"{code}: {1e3 * statistics.median(one):.0f} ms"
      for code, one in zip(codes, zip(*times))))


def main():
  if sys.argv[1:2] == ["--measure"]:
    measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    return
  parser = argparse.ArgumentParser()
  parser.add_argument("peer")
  parser.add_argument("model")
  parser.add_argument("--mpirun", default="mpirun -n",
                      help="what the number of ranks and the program follow")
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--rounds", type=int, default=4)
  parser.add_argument("--repetitions", type=int, default=7)
  parser.add_argument("--dir", default="/dev/shm")
  compare(parser.parse_args())


if __name__ == "__main__":
  main()
