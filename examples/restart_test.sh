#!/usr/bin/env bash
# Checks that a program that was killed and continued on fewer ranks has the
# same result as one that was never stopped: a short version of solver_test.sh,
# with three runs.
#
# usage: restart_test.sh MPIRUN PROGRAM DIR
set -euo pipefail
mpirun=$1 program=$2 dir=$3
rm -rf "$dir"
mkdir -p "$dir"
whole=$("$mpirun" 2 "$program" "$dir/whole" 150 | tail -n 1)
[[ $whole == "step 150: "* ]] || { echo "no result: $whole"; exit 1; }
"$mpirun" 4 "$program" "$dir/run" 150 120 >"$dir/killed" 2>&1 && exit 1
"$mpirun" 3 "$program" "$dir/run" 150 >"$dir/last"
grep -q "going on from step 100 on 3 ranks" "$dir/last"
last=$(tail -n 1 "$dir/last")
[[ $last == "$whole" ]] || { echo "other results: $whole and $last"; exit 1; }
echo "$whole, twice"
