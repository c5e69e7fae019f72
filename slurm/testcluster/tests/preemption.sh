#!/usr/bin/env bash
# A job of the partition `high` needs the nodes of two trainings in `low`. Slurm
# sends the signal that they asked for; they save, and start again when the nodes
# are free.
source "$(dirname "$0")/../lib.sh"

mpirun=$(submit_training mpirun mpirun -p low --exclusive)
srun=$(submit_training srun "$srun_pmix" -p low --exclusive)
wait_for_step 60 mpirun srun
urgent=$(submit urgent -p high -N 4 --exclusive <<<'sleep 1')
wait_for_end "$urgent" 60
for job in "$mpirun" "$srun"; do start_again_now "$job" 1 60; done
for job in "$mpirun" "$srun"; do wait_for_end "$job" 90; done
for name in mpirun srun; do
  expect_line "$name.out" 'batch script: got USR1'
  expect_line "$name.out" 'stopped at step .* because of SIG(USR1|TERM)'
  expect_line "$name.out" 'batch script: exit code 85'
  expect_line "$name.out" 'resumed from step_'
done
expect_whole mpirun srun
