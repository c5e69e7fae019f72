#!/usr/bin/env bash
# Two nodes die in the middle of a save, one after the other: the second time it
# is the one that runs the batch script and holds the lease, which the file server
# keeps for it for a while. Each time Slurm puts the job back into the queue, and
# it goes on from the last checkpoint on the nodes that are left.
source "$(dirname "$0")/../lib.sh"

steps=1600
job=$(submit_until_node_dies 2-4 "$steps" 200)

# lose_in_save HOST START: after the first save of that start of the job.
lose_in_save() {
  wait_until 60 has_saved_in "$2" || fail "start $2 saves nothing"
  slow_save 3
  "$here/poweroff" "$1"
  "$here/storage" mend
  start_again_now "$job" $(($2 + 1)) 60
  find_last 200
}
has_saved_in() { sed "0,/^start $1 /d" train.out | grep -q ' saved step_'; }
wait_for_line train.out 'start 0 on 4 nodes, script on n1' 30 "$job"
lose_in_save n3 0
first=$last
wait_for_line train.out 'start 1 on 3 nodes, script on n1' 30 "$job"
lose_in_save n1 1
wait_for_end "$job" 120
expect_line train.out 'start 2 on 2 nodes, script on n2'
expect_line train.out 'note: the lease was taken over from process [0-9]* on host "n1"'
expect_line train.out "resumed from step_0*$first"
expect_line train.out "resumed from step_0*$last"
expect_committed "$steps"
expect_same_losses "$steps" losses.log
