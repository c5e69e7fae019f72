#!/usr/bin/env bash
# As preemption.sh, but on a cluster that does not send the signal that jobs ask
# for: SIGTERM comes to the ranks of srun, and under mpirun to its daemons.
source "$(dirname "$0")/../lib.sh"

sed -i '/preempt_send_user_signal/d' "$SLURM_CONF"
scontrol reconfigure
mpirun=$(submit_training mpirun mpirun -p low --exclusive)
srun=$(submit_training srun "$srun_pmix" -p low --exclusive)
wait_for_step 60 mpirun srun
urgent=$(submit urgent -p high -N 4 --exclusive <<<'sleep 1')
wait_for_end "$urgent" 60
for job in "$mpirun" "$srun"; do start_again_now "$job" 1 60; done
for job in "$mpirun" "$srun"; do wait_for_end "$job" 90; done
expect_line srun.out 'stopped at step .* because of SIGTERM'
expect_line srun.out 'batch script: exit code 85'
for name in mpirun srun; do expect_line "$name.out" 'resumed from step_'; done
grep -h 'batch script' mpirun.out srun.out
expect_whole mpirun srun
