#!/usr/bin/env bash
# Checks that a run that was killed and continued on another number of ranks has
# the same field as one that was never stopped.
#
# usage: stencil_test.sh MPIRUN PYTHON PROGRAM DIR
set -euo pipefail
mpirun=$1 python=$2 program=$3 dir=$4
rm -rf "$dir"
mkdir -p "$dir"
run() {
  local ranks=$1
  shift
  "$mpirun" "$ranks" "$python" -B "$program" "$@"
}
whole=$(run 2 "$dir/whole" 200 | tail -n 1)
[[ $whole == "step 200: field "* ]] || { echo "no result: $whole"; exit 1; }
# Killed in a step after its second save, and once more after the third.
run 4 "$dir/run" 200 120 >"$dir/killed" 2>&1 && exit 1
run 3 "$dir/run" 200 170 >"$dir/again" 2>&1 && exit 1
grep -q "going on from step 100 on 3 ranks" "$dir/again"
run 1 "$dir/run" 200 >"$dir/last"
grep -q "going on from step 150 on 1 rank" "$dir/last"
last=$(tail -n 1 "$dir/last")
[[ $last == "$whole" ]] || { echo "other fields: $whole and $last"; exit 1; }
echo "$whole, twice"
