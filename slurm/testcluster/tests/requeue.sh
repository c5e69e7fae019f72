#!/usr/bin/env bash
# `scontrol requeue` stops a training without a warning that it listens to. It
# starts again under the same job id and goes on from its last checkpoint.
source "$(dirname "$0")/../lib.sh"

job=$(submit train -N 2 --ntasks-per-node=2 --requeue <<'END_OF_JOB'
srun --mpi=pmix $train --resume --save-every 50 \
  --steps 1000 --loss-log "$work/losses.log"
END_OF_JOB
)
wait_for_line losses.log '^120 ' 60 "$job"
scontrol requeue "$job"
start_again_now "$job" 1 60
wait_for_end "$job" 120
expect_line train.out 'resumed from step_'
expect_committed 1000
expect_same_losses 1000 losses.log
