#!/bin/sh
# A program that ends while a save in the background is under way: the step is
# there afterwards, or the program ends with an error.
#
# usage: left_test.sh MPIRUN PYTHON PROGRAM DIR
set -u
rm -rf "$4"
mkdir -p "$4"

fail() {
  cat "$4/log"
  echo "$1"
  exit 1
}

names="nobody has called close(), wait() or wait_until_finished() before"
for kind in saver manager; do
  "$1" 3 "$2" -B "$3" "$4/$kind" "$kind" >"$4/log" 2>&1 ||
    fail "$kind: exit code $?"
  [ -d "$4/$kind/step_00000001" ] || fail "$kind: no step"
  grep -qF "was finished in MPI_Finalize, since $names" "$4/log" ||
    fail "$kind: no warning"
done
"$1" 3 "$2" -B "$3" "$4/lazy" lazy >"$4/log" 2>&1
code=$?
[ "$code" -eq 1 ] || fail "lazy: exit code $code"
grep -qF "is lost: $names, and wait_for_snapshot() was not called" "$4/log" ||
  fail "lazy: no error"
