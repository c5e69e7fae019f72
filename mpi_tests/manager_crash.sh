#!/bin/sh
# manager_crash.sh COMMAND...: kills rank 0 of a job at each system call by
# which a manager and its save change the names in a directory or make them
# durable, and starts the job again. Each life checks what the last one left,
# and the lives between end by themselves, so that there is always something to
# delete. A plain run takes every other call, the odd ones or with a State the
# even ones; BELAY_CRASH_STRIDE=1 takes all.
set -eu
base=/dev/shm
[ -w $base ] || base=${TMPDIR:-/tmp}
place=$(mktemp -d "$base/belay_manager_crash_XXXXXX")
trap 'rm -rf "$place"' EXIT

# life COMMAND...: sets `code`.
life() {
  code=0
  "$@" >"$place/log" 2>&1 || code=$?
  if [ $code -ne 0 ] && [ $code -ne 137 ]; then
    cat "$place/log"
    echo "exit code $code" >&2
    exit 1
  fi
}

for _ in 1 2 3; do life "$@" "$place/run" 0; done
stride=${BELAY_CRASH_STRIDE:-2}
calls=1
case " $* " in *" state "*) calls=$stride ;; esac
while :; do
  life "$@" "$place/run" $calls
  [ $code -eq 137 ] || break
  life "$@" "$place/run" 0
  [ $code -eq 0 ] || exit 1
  calls=$((calls + stride))
done
if [ $calls -lt 10 ]; then
  echo "only $((calls - 1)) calls were found to be killed at" >&2
  exit 1
fi
echo "killed at one in $stride of $((calls - 1)) calls; left: $(ls "$place/run" | tr '\n' ' ')"
