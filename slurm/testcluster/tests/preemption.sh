#!/usr/bin/env bash
# A job of the partition `high` needs the nodes of a training in `low`. Slurm
# sends the signal that the training asked for, stops it after the grace time,
# and starts it again when the nodes are free.
source "$(dirname "$0")/../lib.sh"

job=$(submit train -p low -N 2 --ntasks-per-node=2 --exclusive --requeue \
  --signal=B:USR1@60 <<'END_OF_JOB'
trap 'echo "the batch script got USR1"' USR1
srun --mpi=pmix $train --resume --save-every 50 --steps 1000 \
  --loss-log "$work/losses.log" &
# A signal ends the waiting, not the training.
until wait $!; [[ $? -lt 128 ]]; do :; done
END_OF_JOB
)
wait_for_line losses.log '^120 ' 60 "$job"
urgent=$(submit urgent -p high -N 4 --exclusive <<<'sleep 2')
wait_for_end "$urgent" 60
start_again_now "$job" 1 60
wait_for_end "$job" 120
expect_line train.out 'the batch script got USR1'
expect_line train.out 'resumed from step_'
expect_committed 1000
expect_same_losses 1000 losses.log
