#!/usr/bin/env bash
# Every fsync of the network file system takes a second longer. Saves take longer,
# and that is all. With a shorter deadline they end the job, which says which
# rank waited for what, and which goes on when the file system is as before.
source "$(dirname "$0")/../lib.sh"

# start HOSTS FLAGS...: in the background.
start() {
  local hosts=$1
  shift
  # shellcheck disable=SC2086  # several words
  "$here/mpirun-hosts" "$hosts" $train --resume --save-every 100 \
    --steps 400 --loss-log "$work/losses.log" "$@" >>train.out 2>&1 &
}

"$here/storage" slow 1
start n1:2,n2:2
wait_for_line train.out 'saved step_00000100.* in [1-9][0-9]*\.[0-9]* s$' 60
signal_rank USR1 n1 0
expect_code 85 wait $!
last=$(sed -n 's/.*stopped at step \([0-9]*\) because of SIGUSR1.*/\1/p' train.out)
expect_committed "$last"

"$here/storage" slow 5
start n1:2,n2:2 --deadline 1
expect_code 75 wait $!
expect_line train.out '^belay: deadline: .*, stage [a-z ]*: (a call did not return within 1 s on rank|waited 1 s for rank) .*; ending the job with exit code 75$'

"$here/storage" mend
expect_committed "$last"
start n1:2,n2:2,n3:1
expect_code 0 wait $!
expect_line train.out "resumed from $(printf 'step_%08d' "$last")"
expect_committed 400
expect_same_losses 400 losses.log
