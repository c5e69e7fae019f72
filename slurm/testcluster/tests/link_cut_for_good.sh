#!/usr/bin/env bash
# The cable of a node is cut in the middle of a save and stays so. The ranks that
# are left end at their deadline and name the one behind the cable; Slurm finds
# the node dead and starts the job again without it.
source "$(dirname "$0")/../lib.sh"

job=$(submit train -N 2-4 --requeue <<'END_OF_JOB'
echo "start ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NUM_NODES nodes"
srun --mpi=pmix -n "$SLURM_JOB_NUM_NODES" $train --resume --deadline 8 \
  --save-every 100 --steps 800 --loss-log "$work/losses.log"
# To end now would be the end of the job, before Slurm sees the dead node.
[[ $? -eq 0 ]] || sleep 300
END_OF_JOB
)
wait_for_line train.out 'start 0 on 4 nodes' 30 "$job"
wait_for_line losses.log '^120 ' 60 "$job"
slow_save 3
"$here/link" n2 down
start_again_now "$job" 1 60
find_last 100
"$here/poweroff" n2  # nobody shall wait for it
"$here/storage" mend
expect_line train.out "^belay: deadline: save \"$work/run/step_0*$saving\", stage [a-z ]*: waited 8 s for rank 1 of 4(; [^;]*)*; ending the job with exit code 75\$"
wait_for_end "$job" 120
expect_line train.out 'start 1 on 3 nodes'
expect_line train.out "resumed from step_0*$last"
expect_committed 800
expect_same_losses 800 losses.log
