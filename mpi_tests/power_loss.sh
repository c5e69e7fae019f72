#!/usr/bin/env bash
# power_loss.sh MPIRUN PROGRAM: the disk of a job loses its power in a save in
# the background, and the job is started again on other ranks, as crash.sh does
# with one that is killed. The disk is an ext4 of its own, which only these
# processes see: it stops at once, and what was not synced is lost.
#
# Right after a step was reported it is there, byte for byte; right before it
# gets its name, the one before is the newest; at any system call, one of the
# two. Without its syncs the library loses steps: so the test would see. As after
# an error of the disk, it becomes read-only at some calls.
#
# Exits with 77, "skipped", where that is not permitted. A plain run takes a
# sample of the system calls; BELAY_POWER_STRIDE=1 takes each of them.
set -euo pipefail

skip() {
  echo "skipped: $1" >&2
  exit 77
}

if [[ $1 != inside ]]; then
  unshare -m true 2>/dev/null || skip 'needs the right to mount'
  command -v mkfs.ext4 >/dev/null || skip 'needs mkfs.ext4'
  place=$(mktemp -d)
  trap 'rm -rf "$place"' EXIT
  export place
  code=0
  unshare -m "$0" inside "$@" || code=$?
  exit $code
fi

mpirun=$2 program=$3 stride=${BELAY_POWER_STRIDE:-97}
mkdir "$place/disk"
truncate -s 48M "$place/image"

attach() { mount -t ext4 -o loop "$place/image" "$place/disk"; }
new_disk() {
  mkfs.ext4 -q -F -m 0 "$place/image"
  attach 2>/dev/null || skip 'cannot mount ext4'
  rm -f "$place"/notes.*
}
# The last writers may not have closed their files yet.
detach() {
  for _ in 1 2 3 4 5; do
    umount "$place/disk" 2>/dev/null && return
    sleep 0.2
  done
  umount "$place/disk"
}

# live RANKS HOW RANK N: sets `code`; power comes back after it.
live() {
  code=0
  "$mpirun" "$1" "$program" "$place/disk/run" "$place/notes" background \
    "${@:2}" </dev/null >"$place/log" 2>&1 || code=$?
  detach
  attach
}

complain() {
  cat "$place/log"
  echo "$1" >&2
  exit 1
}

# cut RANKS HOW RANK N: it ends with the error of a disk that is gone.
cut() {
  live "$@"
  [[ $code -eq 0 ]] || complain "on $1 ranks, $2 $3 $4: exit code $code"
  grep -q '^ended with: [A-Z_]*: ' "$place/log" ||
    complain "on $1 ranks, $2 $3 $4: no error of the disk"
}

new_disk
live 3 unsynced 0 2
[[ $code -eq 0 ]] || complain "unsynced: exit code $code"
live 2 count 0 0
[[ $code -ne 0 ]] || complain 'no step is lost without a sync'
detach
new_disk
live 3 count 0 0
[[ $code -eq 0 ]] || complain "count: exit code $code"
read -ra counts < <(sed -n 's/^calls: //p' "$place/log")

for n in 1 2 3; do
  cut $((2 + n % 3)) report 0 "$n"
  cut $((2 + n % 2)) rename 0 "$n"
done
number=0 lives=6
for rank in "${!counts[@]}"; do
  for ((n = 1; n <= counts[rank]; ++n)); do
    for how in power readonly; do
      number=$((number + 1))
      ((number % stride == 0)) || continue
      lives=$((lives + 1))
      cut 3 "$how" "$rank" "$n"
    done
  done
done
live 4 count 0 0
[[ $code -eq 0 ]] || complain "the last life: exit code $code"
detach
echo "without power $lives times, at $number moments and calls at most:" \
  "newest step $(tail -n 1 "$place/notes.reported")"
