#!/bin/sh
# one_rank_ends.sh TEXT COMMAND...: the command must end within 30 seconds, not
# with exit code 0 or that of a missed deadline, after printing TEXT.
set -u
text=$1
shift
output=$(timeout -k 5 30 "$@" 2>&1)
code=$?
if [ "$code" -eq 0 ] || [ "$code" -eq 75 ] || [ "$code" -eq 124 ]; then
  echo "need another exit code than 0, 75 and 124, found $code"
elif ! printf '%s\n' "$output" | grep -qF "$text"; then
  echo "need a line with: $text"
elif printf '%s\n' "$output" | grep -qF "the save went on"; then
  echo "a rank went on"
else
  exit 0
fi
printf '%s\n' "$output"
exit 1
