#!/bin/sh
# different_calls.sh COMMAND...: the command must end within 20 seconds, either
# with exit code 75 after a line of the deadline or with exit code 1 after an
# error that says what its ranks did wrong.
set -u
output=$(timeout -k 5 20 "$@" 2>&1)
code=$?
has() { printf '%s\n' "$output" | grep -qF "$1"; }
if [ "$code" -eq 75 ] && has "belay: deadline: "; then
  exit 0
elif [ "$code" -eq 1 ] && { has "ranks are in different calls of belay" ||
  has "pass one on all ranks or on none"; }; then
  exit 0
fi
echo "need exit code 75 and a deadline, or 1 and an error about the calls; found $code"
printf '%s\n' "$output"
exit 1
