#!/bin/sh
# A program that ends while a save in the background is under way: the step is
# there afterwards, or the program ends with an error.
#
# usage: left_test.sh MPIRUN PYTHON PROGRAM DIR
set -u
dir=$4
rm -rf "$dir"
mkdir -p "$dir"

fail() {
  cat "$dir/log"
  echo "$1"
  exit 1
}

names="nobody has called close() or wait() before"
for kind in saver manager policy; do
  "$1" 3 "$2" -B "$3" "$dir/$kind" "$kind" >"$dir/log" 2>&1 ||
    fail "$kind: exit code $?"
  [ -d "$dir/$kind/step_00000001" ] || fail "$kind: no step"
  grep -qF "was finished in MPI_Finalize, since $names" "$dir/log" ||
    fail "$kind: no warning"
done
"$1" 3 "$2" -B "$3" "$dir/lazy" lazy >"$dir/log" 2>&1
code=$?
[ "$code" -eq 1 ] || fail "lazy: exit code $code"
grep -qF "is lost: $names, and wait_for_snapshot() was not called" "$dir/log" ||
  fail "lazy: no error"
