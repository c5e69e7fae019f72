#!/bin/sh
# run.sh BUILD SOURCE CXX: installs BUILD into a new prefix, builds the project
# in SOURCE against it, and runs that on two ranks.
set -eu
build=$1 source=$2 cxx=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log"
for file in include/belay/save_restore.h include/belay/version.h; do
  test -f "$scratch/prefix/$file" || { echo "not installed: $file"; exit 1; }
done
if grep -rlF "$source" "$scratch/prefix" --include='*.cmake'; then
  echo "the installed files above name the source tree"
  exit 1
fi

# The installed command finds the models that are installed with it.
if [ -x "$scratch/prefix/bin/belay" ]; then
  models=$scratch/prefix/share/belay/models
  cp "$models/gpt2-small.hf.tsv" "$models/copy.tsv"
  "$scratch/prefix/bin/belay" simulate --model copy --from dp=2 >/dev/null
fi

cmake -S "$source/tests/consumer" -B "$scratch/build" -G Ninja \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$scratch/configure.log" ||
  { cat "$scratch/configure.log"; exit 1; }
cmake --build "$scratch/build"
mpirun --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 \
  --mca btl self,vader --mca io romio321 -n 2 \
  "$scratch/build/consumer" "$scratch/run"
