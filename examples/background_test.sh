#!/usr/bin/env bash
# Checks that a program that saves in the background, and is killed in the
# middle of a save, continues on another number of ranks from a complete step.
#
# usage: background_test.sh MPIRUN PROGRAM DIR
set -euo pipefail
mpirun=$1 program=$2 dir=$3
rm -rf "$dir"
mkdir -p "$dir"
"$mpirun" 4 "$program" "$dir/run" 30 12 >"$dir/killed" 2>&1 && exit 1
"$mpirun" 3 "$program" "$dir/run" 30 21 >"$dir/again" 2>&1 && exit 1
"$mpirun" 2 "$program" "$dir/run" 30 | tee "$dir/last"
# Step 20 was saved, or was being saved, when the job was killed.
grep -Eq "steps (20|21) to 30 on 2 ranks: the table is right" "$dir/last"
