#!/usr/bin/env bash
# Two jobs on two nodes are given one run directory. The second one is refused
# and is told whose it is; the first goes on as if nothing had happened. When it
# is killed the next one takes over at once.
source "$(dirname "$0")/../lib.sh"

first=$(submit first -w n1 -n 2 <<'END_OF_JOB'
srun --mpi=pmix $train --save-every 50 --steps 1000000 --loss-log "$work/losses.log"
END_OF_JOB
)
wait_for_line losses.log '^60 ' 60 "$first"
second=$(submit second -w n2 -n 2 <<'END_OF_JOB'
srun --mpi=pmix $train --save-every 50 --steps 1000000 --resume
END_OF_JOB
)
wait_for_end "$second" 60 FAILED
expect_line second.out "^FAILED_PRECONDITION: take the lease \"$work/run/step.lease\": held by process [0-9]+ on host \"n1\" \(Slurm job $first, user \"root\"\), since .* UTC; only one manager may save here at a time: wait until that job has ended, or choose another directory or prefix"

reached=$(tail -n 1 losses.log | cut -d' ' -f1)
wait_for_line losses.log "^$((reached + 100)) " 60 "$first"
signal_rank KILL n1 0
wait_for_end "$first" 60 FAILED

steps=$(($(tail -n 1 losses.log | cut -d' ' -f1) + 50))
# shellcheck disable=SC2086  # several words
srun --mpi=pmix -w n2,n3 -N 2 --ntasks-per-node=2 $train --resume \
  --save-every 50 --steps "$steps" --loss-log "$work/losses.log" >third.out
expect_line third.out "note: .*lease"
expect_line third.out 'resumed from step_'
expect_same_losses "$steps" losses.log
