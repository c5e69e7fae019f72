#!/bin/sh
# check_exit.sh TEXT COMMAND...: the command must end with exit code 1 within 20
# seconds after printing exactly one line with TEXT.
set -u
text=$1
shift
output=$(timeout 20 "$@" 2>&1)
code=$?
lines=$(printf '%s\n' "$output" | grep -cF "$text")
if [ "$code" -ne 1 ]; then
  echo "need exit code 1, found $code"
elif [ "$lines" -ne 1 ]; then
  echo "need one line with: $text (found $lines)"
else
  exit 0
fi
printf '%s\n' "$output"
exit 1
