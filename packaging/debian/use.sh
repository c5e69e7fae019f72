#!/usr/bin/env bash
# use.sh tools|python|development: uses the packages of belay that are installed
# here, in a root of their own. check.sh has put what this needs beside it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

run() {
  mpirun --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 \
    --mca btl self,vader --mca io romio321 -n 2 "$@"
}

# shows TEXT COMMAND...: the command succeeds, and prints the text.
shows() {
  local text=$1 output
  shift
  output=$("$@" 2>&1) || { echo "failed: $*"; echo "$output"; exit 1; }
  [[ $output == *"$text"* ]] || { echo "no \"$text\": $*"; echo "$output"; exit 1; }
}

# in_place FILE...: all libraries are found, and none by a path in the file.
in_place() {
  local file needed
  for file in "$@"; do
    needed=$(ldd "$file")
    [[ $needed != *"not found"* ]] || { echo "$file: $needed"; exit 1; }
    # shellcheck disable=SC2016
    if grep -q --text '/build/release\|\$ORIGIN' "$file"; then
      echo "$file: has a path for libraries of its own"
      exit 1
    fi
  done
}

use_tools() {
  in_place /usr/bin/belay /usr/lib/belay/read-hdf5
  shows "step 100000008" belay ls format_1_0
  shows "all checksums match" belay verify format_1_0
  shows "rank" belay simulate --model gpt2-small.hf --from dp=2
  shows '"tensors"' belay export --json --leave-out-others \
    format_1_0 out.safetensors
  shows "belay-verify(1)" man belay
  shows "--shards" man belay ls
  # shellcheck disable=SC2016
  shows "complete -F _belay belay" bash -c \
    'source /usr/share/bash-completion/completions/belay; complete -p belay'
}

use_python() {
  in_place /usr/lib/python3/dist-packages/belay/_core.*.so
  shows "0.1.0" python3 -c 'import belay; print(belay.__version__)'
  cat >save.py <<'END'
from mpi4py import MPI
import numpy
import belay

comm = MPI.COMM_WORLD
weights = numpy.arange(6.0)
belay.save(comm, "python-run", 7, {"weights": weights})
restored = belay.restore(comm, "python-run", {"weights": numpy.zeros(6)})
assert (restored.state["weights"] == weights).all()
if comm.rank == 0:
  print("restored", restored.step)
END
  shows "restored 7" run python3 save.py
}

# A project of CMake with one program: cmake_project NAME SOURCE LANGUAGES TARGET
cmake_project() {
  mkdir "$1"
  cp "$2" "$1"
  cat >"$1/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project($1 LANGUAGES $3)
find_package(belay 0.1 REQUIRED)
add_executable(program $(basename "$2"))
target_link_libraries(program PRIVATE $4)
END
  shows "Build files have been written" cmake -S "$1" -B "$1/build"
  shows "Built target program" cmake --build "$1/build"
}

use_development() {
  test -f /usr/share/doc/belay/errors.md
  in_place /usr/lib/libbelay.so /usr/lib/libbelay_fortran.so
  # Not quoted: it is several words.
  # shellcheck disable=SC2046
  {
    mpicxx -std=c++20 consumer/main.cc -o cxx \
      $(pkg-config --cflags --libs belay)
    mpicc -std=c99 examples/c/heat.c -o c $(pkg-config --cflags --libs belay)
    mpifort examples/fortran/heat.f90 -o fortran \
      $(pkg-config --cflags --libs belay-fortran)
  }
  cmake_project with_cxx consumer/main.cc "C CXX" belay::belay
  cmake_project with_c examples/c/heat.c "C CXX" belay::belay
  cmake_project with_fortran examples/fortran/heat.f90 "C CXX Fortran" \
    belay::belay_fortran
  shows "saved and restored with belay" run ./cxx run-1
  shows "saved and restored with belay" run with_cxx/build/program run-2
  # The second goes on from where the first has stopped.
  for language in c fortran; do
    shows "" run "./$language" "run-$language" 100
    shows "going on from step" run "with_$language/build/program" "run-$language" 200
  done
}

"use_$1"
