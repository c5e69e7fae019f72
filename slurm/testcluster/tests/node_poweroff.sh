#!/usr/bin/env bash
# A node dies in the middle of a training. Slurm finds out, puts the job back
# into the queue, and it goes on from its last checkpoint with the ranks of the
# nodes that are left.
source "$(dirname "$0")/../lib.sh"

steps=1500
job=$(submit_until_node_dies 3-4 "$steps" 100)
wait_for_line train.out 'start 0 on 4 nodes' 30 "$job"
wait_for_line losses.log '^250 ' 60 "$job"
"$here/poweroff" n2

start_again_now "$job" 1 60
[[ $(sinfo -h -p low -n n2 -o %t) == down* ]] || fail "Slurm takes n2 for alive"
wait_for_end "$job" 120
expect_line train.out 'start 1 on 3 nodes'
expect_line train.out 'resumed from step_'
expect_committed "$steps"
expect_same_losses "$steps" losses.log
