#!/bin/sh
# crash.sh LIVES MODE COMMAND...: kills a job of three ranks once per life, at
# every kind of moment of a save in the foreground or, if MODE is "background",
# of one in the background, and starts it again in the same directory. Each life
# checks what the last one left; the last life ends by itself.
set -eu
lives=$1 mode=$2
shift 2
[ "$mode" = background ] || mode=
base=/dev/shm
[ -w $base ] || base=${TMPDIR:-/tmp}
place=$(mktemp -d "$base/belay_crash_XXXXXX")
trap 'rm -rf "$place"' EXIT
life=1
while [ "$life" -le "$lives" ]; do
  code=0
  # shellcheck disable=SC2086  # no word for the foreground
  "$@" "$place/run" $((life % 3)) "$life" $mode >"$place/log" 2>&1 || code=$?
  if [ $code -ne 137 ]; then
    cat "$place/log"
    echo "life $life: exit code $code, but it should have been killed" >&2
    exit 1
  fi
  life=$((life + 1))
done
# shellcheck disable=SC2086
"$@" "$place/run" 0 0 $mode
echo "$lives lives: $(ls "$place/run" | wc -l) names, newest reported:" \
  "$(tail -n 1 "$place/run.reported")"
