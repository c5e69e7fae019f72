#!/usr/bin/env bash
# The network file system becomes read-only in a training, as after an error of
# its disk; then for one node alone, which is not that of rank 0. The job ends
# with an error that says so, the last checkpoint is intact, and after mending
# it goes on.
source "$(dirname "$0")/../lib.sh"

# start HOSTS: in the background. The losses go to a disk that works.
start() {
  # shellcheck disable=SC2086  # several words
  "$here/mpirun-hosts" "$1" $train --resume --save-every 100 --steps 600 \
    --loss-log "$local_disk/losses.log" >>"$local_disk/train.out" 2>&1 &
}
wait_for_step() {
  wait_until 60 on "$1" grep -qs "^$2 " "$local_disk/losses.log" ||
    fail "no step $2 on $1: $(on "$1" tail -n 5 "$local_disk/losses.log")"
}
error='_(DENIED|PRECONDITION): .*"'$work'/run/.*ead-only file system'

start n1:2,n2:2
wait_for_step n1 150
"$here/storage" readonly
expect_code 1 wait $!
expect_line "$local_disk/train.out" "$error"
"$here/storage" mend
expect_committed 100

start n3:2,n1:1
wait_for_step n3 250
"$here/view" n1 readonly
expect_code 1 wait $!
"$here/view" n1 all
[[ $(grep -cE "$error" "$local_disk/train.out") -eq 2 ]] ||
  fail "not one error each: $(cat "$local_disk/train.out")"
expect_committed 200

start n1:2,n4:1
expect_code 0 wait $!
expect_line "$local_disk/train.out" 'resumed from step_00000200'
expect_committed 600
# Every node has a disk of its own.
for host in n1 n3; do
  on "$host" cat "$local_disk/losses.log" >"$work/losses_of_$host.log"
done
expect_same_losses 600 losses_of_*.log
