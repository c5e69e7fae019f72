#!/bin/sh
# deadline_exit.sh MESSAGE COMMAND...: the command must end with exit code 75
# after printing
# MESSAGE and the common end of these messages as one line.
set -u
message="$1; ending the job with exit code 75"
shift
output=$("$@" 2>&1)
code=$?
if [ "$code" -ne 75 ]; then
  echo "need exit code 75, found $code"
elif ! printf '%s\n' "$output" | grep -qxF "$message"; then
  echo "need the line: $message"
else
  exit 0
fi
printf '%s\n' "$output"
exit 1
