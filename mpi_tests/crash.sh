#!/usr/bin/env bash
# crash.sh MODE MPIRUN PROGRAM: kills a job at the moments of a save in the
# foreground or in the background (MODE), and starts it again in the same
# directory, on two ranks and on three in turns. Each life checks what the one
# before has left; the last one ends by itself.
#
# It is killed before the system calls by which ranks change the directory, one
# rank alone and all at once, and at random moments on two to four ranks. A plain
# run takes a sample. BELAY_CRASH_STRIDE=1 takes each call, which are about a
# thousand lives, and BELAY_CRASH_MOMENTS=200 so many random moments:
#
#   BELAY_CRASH_STRIDE=1 BELAY_CRASH_MOMENTS=200 mpi_tests/crash.sh background \
#     mpi_tests/mpirun.sh build/release/mpi_tests/mpi_crash
set -euo pipefail
mode=$1 mpirun=$2 program=$3
stride=${BELAY_CRASH_STRIDE:-71} moments=${BELAY_CRASH_MOMENTS:-3}
base=/dev/shm
[[ -w $base ]] || base=${TMPDIR:-/tmp}
place=$(mktemp -d "$base/belay_crash_XXXXXX")
trap 'rm -rf "$place"' EXIT

# live RANKS HOW RANK N: sets `code`.
live() {
  code=0
  "$mpirun" "$1" "$program" "$place/run" "$place/notes" "$mode" "${@:2}" \
    >"$place/log" 2>&1 || code=$?
}

# expect_code CODE RANKS HOW RANK N
expect_code() {
  live "${@:2}"
  [[ $code -eq $1 ]] && return
  cat "$place/log"
  echo "on $2 ranks, $3 $4 $5: exit code $code, expected $1" >&2
  exit 1
}

# calls_of RANKS: counts them, and lists a life for each.
calls_of() {
  local counts rank n how
  expect_code 0 "$1" count 0 0 >&2
  grep -h 'calls:\|thread:' "$place/log" | sed "s/^/$1 ranks, /" >&2
  read -ra counts < <(sed -n 's/^calls: //p' "$place/log")
  for rank in "${!counts[@]}"; do
    for ((n = 1; n <= counts[rank]; ++n)); do
      for how in one all; do echo "$1 $how $rank $n"; done
    done
  done
}

calls_of 3 >"$place/on_3"
calls_of 2 >"$place/on_2"
paste -d '\n' "$place/on_3" "$place/on_2" | sed '/^$/d' >"$place/calls"
awk -v stride="$stride" 'NR % stride == 0' "$place/calls" >"$place/lives"
for ((n = 1; n <= moments; ++n)); do
  echo "$((2 + n % 3)) moment $((n % 2)) $n" >>"$place/lives"
done
while read -r -a life; do expect_code 137 "${life[@]}" </dev/null; done \
  <"$place/lives"
expect_code 0 4 count 0 0
echo "killed $(wc -l <"$place/lives") times, at calls of $(wc -l <"$place/calls"):" \
  "newest step $(tail -n 1 "$place/notes.reported")"
