#!/usr/bin/env bash
# Two trainings lose a node. Whoever is first to see it, mpirun, srun or Slurm:
# both start again on other nodes, and go on from their last checkpoint.
source "$(dirname "$0")/../lib.sh"

mpirun=$(submit_training mpirun mpirun)
srun=$(submit_training srun "$srun_pmix")
wait_for_step 60 mpirun srun
[[ $(squeue -h -O NodeList | sort -u | xargs) == 'n[1-2]' ]] ||
  fail "not both on n1 and n2"
"$here/poweroff" n2
for job in "$mpirun" "$srun"; do start_again_now "$job" 1 60; done
for job in "$mpirun" "$srun"; do wait_for_end "$job" 90; done
for name in mpirun srun; do expect_line "$name.out" 'resumed from step_'; done
expect_whole mpirun srun
