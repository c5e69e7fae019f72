#!/bin/sh
# A rank that does not arrive ends the job with exit code 75.
#
# usage: deadline_test.sh MPIRUN PYTHON PROGRAM DIR
set -u
rm -rf "$4"
mkdir -p "$4"
"$1" 3 "$2" -B "$3" "$4/run" >"$4/log" 2>&1
code=$?
cat "$4/log"
[ "$code" -eq 75 ] || { echo "exit code $code"; exit 1; }
grep -qF "belay: deadline: save \"$4/run/step_00000001\", stage arguments: \
waited 1 s for rank 2 of 3; ranks may be in different calls; ending" "$4/log"
