#!/usr/bin/env bash
# `scontrol requeue` takes a running job from its nodes. It starts again under
# the same number and goes on from its last checkpoint; what scancel ends does
# not start again.
source "$(dirname "$0")/../lib.sh"

mpirun=$(submit_training mpirun mpirun)
srun=$(submit_training srun "$srun_pmix")
async=$(submit_training async "$srun_pmix")
cancelled=$(submit_training cancelled mpirun)
wait_for_step 60 mpirun srun async cancelled
scontrol requeue "$mpirun,$srun,$async"
scancel "$cancelled"
for job in "$mpirun" "$srun" "$async"; do start_again_now "$job" 1 60; done
for job in "$mpirun" "$srun" "$async"; do wait_for_end "$job" 90; done
wait_for_end "$cancelled" 10 CANCELLED
for name in mpirun srun cancelled; do
  expect_line "$name.out" 'batch script: got TERM'
  expect_line "$name.out" 'ended by Slurm'
done
# srun gives its ranks the seconds of KillWait, mpirun two of its own.
expect_line srun.out 'stopped at step .* because of SIG(TERM|USR1)'
expect_line srun.out 'batch script: exit code 85'
expect_line mpirun.out 'batch script: exit code (1|85)'
expect_line cancelled.out 'batch script: exit code (1|85)'
expect_line mpirun.out 'resumed from step_'
expect_line srun.out 'resumed from step_'
expect_line async.out 'resumed from step_'
expect_whole mpirun srun async
