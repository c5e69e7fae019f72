#!/usr/bin/env bash
# Trainings lose a node. Whoever is first to see it, mpirun, srun or Slurm: all
# start again, and go on from their last checkpoint. One needs two nodes; two take
# what there is, at first four nodes, then three.
source "$(dirname "$0")/../lib.sh"

mpirun=$(submit_training mpirun mpirun)
# The number of ranks is the script's own, and that of LAUNCH.
# shellcheck disable=SC2046  # several words
mpirun_wide=$(submit_file mpirun_wide -N 2-4 "$scripts/train.sbatch" \
  $(training mpirun_wide))
# shellcheck disable=SC2046  # several words
srun_wide=$(LAUNCH="$srun_pmix --ntasks-per-node=1" submit_file srun_wide -N 2-4 \
  --mincpus=1 "$scripts/train.sbatch" $(training srun_wide))
jobs=("$mpirun" "$mpirun_wide" "$srun_wide")
names=(mpirun mpirun_wide srun_wide)
wait_for_step 60 "${names[@]}"
[[ $(squeue -h -j "$mpirun" -O NodeList | xargs) == 'n[1-2]' ]] ||
  fail "not on n1 and n2"
"$here/poweroff" n2
for job in "${jobs[@]}"; do start_again_now "$job" 1 60; done
for job in "${jobs[@]}"; do wait_for_end "$job" 90; done
expect_line mpirun.out 'batch script: exit code 205'
for name in "${names[@]}"; do expect_line "$name.out" 'resumed from step_'; done
expect_line mpirun_wide.out 'on 8 ranks'
expect_line mpirun_wide.out 'on 6 ranks'
expect_line srun_wide.out 'on 4 ranks'
expect_line srun_wide.out 'on 3 ranks'
expect_whole "${names[@]}"
