#!/usr/bin/env bash
# A rank is killed, first between two saves and then in the middle of one. The
# launcher ends the job, and the next one goes on from the last checkpoint, each
# time with another number of ranks.
source "$(dirname "$0")/../lib.sh"

# start HOSTS: in the background.
start() {
  # shellcheck disable=SC2086  # several words
  "$here/mpirun-hosts" "$1" $train --resume --save-every 100 --steps 800 \
    --loss-log "$work/losses.log" >>train.out 2>&1 &
}

start n1:2,n2:2
wait_for_line losses.log '^150 ' 60
signal_rank KILL n2 3
expect_code 137 wait $!
expect_committed 100

start n3:1,n1:2
wait_for_line losses.log '^220 ' 60
slow_save 2
signal_rank KILL n1 1
expect_code 137 wait $!
"$here/storage" mend
find_last 100
expect_committed "$last"

start n1:2,n4:3
expect_code 0 wait $!
expect_line train.out 'resumed from step_00000100'
expect_line train.out "resumed from step_0*$last"
expect_committed 800
expect_same_losses 800 losses.log
