#!/usr/bin/env bash
# `scancel --signal=USR1` reaches the steps, the batch script or both, under
# mpirun perhaps some ranks only, and comes twice: each training makes one last
# save, is put back into the queue once, and goes on.
source "$(dirname "$0")/../lib.sh"

names=(steps_mpirun steps_srun batch_mpirun full_srun)
steps_mpirun=$(submit_training steps_mpirun mpirun)
steps_srun=$(submit_training steps_srun "$srun_pmix")
batch_mpirun=$(submit_training batch_mpirun mpirun)
full_srun=$(submit_training full_srun "$srun_pmix")
wait_for_step 60 "${names[@]}"
scancel --signal=USR1 "$steps_mpirun" "$steps_srun"
scancel --batch --signal=USR1 "$batch_mpirun"
scancel --full --signal=USR1 "$full_srun"
scancel --batch --signal=USR1 "$batch_mpirun"
for name in "${names[@]}"; do start_again_now "${!name}" 1 60; done
for name in "${names[@]}"; do wait_for_end "${!name}" 90; done
for name in "${names[@]}"; do
  [[ $(grep -c 'stopped at step .* because of SIGUSR1' "$name.out") -eq 1 ]] ||
    fail "$name did not stop once"
  expect_line "$name.out" 'batch script: exit code 85'
  expect_line "$name.out" 'resumed from step_'
  has_line "$name.out" 'batch script: got USR1' && echo "$name: the script got it"
done
expect_whole "${names[@]}"
