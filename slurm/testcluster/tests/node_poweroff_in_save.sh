#!/usr/bin/env bash
# Two nodes die in the middle of a save, one after the other: the second time it
# is the one that runs the batch script and holds the lease, which the file server
# keeps for it for a while. Each time Slurm puts the job back into the queue, and
# it goes on from the last checkpoint on the nodes that are left.
source "$(dirname "$0")/../lib.sh"

steps=800
export steps
job=$(submit train -N 2-4 --requeue <<'END_OF_JOB'
echo "start ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NUM_NODES nodes, script on $SLURMD_NODENAME"
srun --mpi=pmix -n "$SLURM_JOB_NUM_NODES" $train --resume --save-every 200 --steps "$steps" \
  --loss-log "$work/losses.log"
# To end now would be the end of the job, before Slurm sees the dead node.
[[ $? -eq 0 ]] || sleep 300
END_OF_JOB
)

# lose_in_save HOST STEP: the step is not committed; the one before is.
lose_in_save() {
  wait_for_line losses.log "^$(($2 - 50)) " 60 "$job"
  "$here/storage" slow 3
  wait_for_save 60 "$job"
  "$here/poweroff" "$1"
  "$here/storage" mend
  [[ ! -e run/$(printf 'step_%08d' "$2") ]] ||
    fail "step $2 was saved before $1 lost its power"
}
wait_for_line train.out 'start 0 on 4 nodes, script on n1' 30 "$job"
lose_in_save n3 400
start_again_now "$job" 1 60
wait_for_line train.out 'start 1 on 3 nodes, script on n1' 30 "$job"
lose_in_save n1 600
start_again_now "$job" 2 60
wait_for_end "$job" 120
expect_line train.out 'start 2 on 2 nodes, script on n2'
expect_line train.out 'note: the lease was taken over from process [0-9]* on host "n1"'
expect_line train.out 'resumed from step_00000200'
expect_line train.out 'resumed from step_00000400'
expect_committed "$steps"
expect_same_losses "$steps" losses.log
