#!/usr/bin/env bash
# A training whose variables of Slurm are missing or absurd says so and goes on;
# one that saves on the disk of each node ends, and the error names the hosts.
source "$(dirname "$0")/../lib.sh"

# shellcheck disable=SC2046  # several words
missing=$(submit_file missing -N 2 --ntasks-per-node=1 "$scripts/train.sbatch" \
  env -u SLURM_JOB_ID -u SLURM_JOBID $(training missing 0) --stop-at-time-limit)
# shellcheck disable=SC2046
absurd=$(submit_file absurd -N 2 --ntasks-per-node=1 "$scripts/train.sbatch" \
  env SLURM_RESTART_COUNT=x SLURM_JOB_NUM_NODES=-3 \
  $(training absurd 0) --stop-at-time-limit)
# shellcheck disable=SC2046
no_job=$(submit_file no_job -N 2 --ntasks-per-node=1 "$scripts/train.sbatch" \
  env SLURM_JOB_ID=many $(training no_job 0) --stop-at-time-limit)
# shellcheck disable=SC2046
local=$(LAUNCH=$srun_pmix submit_file local -N 2 --ntasks-per-node=1 \
  "$scripts/train.sbatch" $(training local 0) --dir "$local_disk/run")
for job in "$missing" "$absurd" "$no_job"; do wait_for_end "$job" 60; done
expect_line missing.out 'note: .*SLURM_JOB_ID'
expect_line absurd.out 'note: .*SLURM_RESTART_COUNT.*x'
expect_line absurd.out 'note: .*SLURM_JOB_NUM_NODES.*-3'
expect_line no_job.out 'note: .*SLURM_JOB_ID.*many'
expect_whole missing absurd no_job
wait_for_end "$local" 60 FAILED
expect_line local.out 'what rank 0 made on host "n[1-4]" was not seen within .* by "n[1-4]" .rank 1.'
expect_line local.out 'batch script: exit code 1'
