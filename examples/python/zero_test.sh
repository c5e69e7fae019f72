#!/usr/bin/env bash
# Checks that a training that was killed and continued on another number of
# ranks has the same losses, to the last bit, as one that was never stopped.
# Most of the time is spent importing PyTorch, on one rank after another.
#
# usage: zero_test.sh MPIRUN PYTHON PROGRAM TEXT DIR
set -euo pipefail
mpirun=$1 python=$2 program=$3 text=$4 dir=$5
find="import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
"$python" -c "$find" || {
  echo "skipped: $python has no PyTorch (Debian: python3-torch)"
  exit 77
}
rm -rf "$dir"
mkdir -p "$dir"
run() {
  local ranks=$1 log=$2
  shift 2
  "$mpirun" "$ranks" "$python" -B "$program" --text "$text" --steps 30 \
    --save-every 8 --losses "$dir/$log" "$@"
}
run 1 whole "$dir/whole_run"
run 3 first "$dir/run" --die-at 21 >"$dir/killed" 2>&1 && exit 1
run 2 second "$dir/run" | tee "$dir/last"
grep -q "going on from step 16 on 2 ranks" "$dir/last"
[[ $(wc -l <"$dir/first") -eq 20 && $(wc -l <"$dir/second") -eq 14 ]]
# Steps that were repeated after the restart must give the same lines.
cat "$dir/first" "$dir/second" | sort -u | sort -n >"$dir/pieces"
cmp "$dir/pieces" "$dir/whole" || { echo "the losses differ"; exit 1; }
echo "$(wc -l <"$dir/whole") losses are the same to the last bit"
