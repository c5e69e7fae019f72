#!/usr/bin/env bash
# Checks that a solver that was killed and continued on another number of ranks
# has the same result as one that was never stopped.
#
# usage: solver_test.sh MPIRUN PROGRAM DIR
set -euo pipefail
mpirun=$1 program=$2 dir=$3
rm -rf "$dir"
mkdir -p "$dir"
whole=$("$mpirun" 2 "$program" "$dir/whole" 200 | tail -n 1)
[[ $whole == "step 200: "* ]] || { echo "no result: $whole"; exit 1; }
# Killed in a step after its second save, and once more after the third.
"$mpirun" 4 "$program" "$dir/run" 200 120 >"$dir/killed" 2>&1 && exit 1
"$mpirun" 3 "$program" "$dir/run" 200 170 >"$dir/again" 2>&1 && exit 1
grep -q "going on from step 100 on 3 ranks" "$dir/again"
"$mpirun" 1 "$program" "$dir/run" 200 >"$dir/last"
grep -q "going on from step 150 on 1 rank" "$dir/last"
last=$(tail -n 1 "$dir/last")
[[ $last == "$whole" ]] || { echo "other results: $whole and $last"; exit 1; }
# Continuing on the same number of ranks also works.
"$mpirun" 4 "$program" "$dir/same" 150 >"$dir/first"
same=$("$mpirun" 4 "$program" "$dir/same" 200 | tail -n 1)
[[ $same == "$whole" ]] || { echo "other results: $whole and $same"; exit 1; }
echo "$whole, three times"
