#!/usr/bin/env bash
# Trainings reach their time limit. Three are told by Slurm, of which one saves in
# the background, one looks at the clock itself, and three are told nothing before
# it is over; one of those does not end before Slurm kills it. Each is put back into
# the queue, once, and goes on to its end.
source "$(dirname "$0")/../lib.sh"

# Slurm looks at the limits every 30 s; before that the training must not be done,
# after that it need not take long.
echo 0.2 >pace
# shellcheck disable=SC2016  # expanded when the job starts, and starts again
paced='exec "$@" --step-seconds "$(<"$work/pace")"'
# submit_paced NAME LAUNCHER [SBATCH OPTIONS] -- [FLAGS]
submit_paced() {
  local name=$1 launcher=$2 options=()
  shift 2
  while [[ $1 != -- ]]; do options+=("$1"); shift; done
  shift
  # shellcheck disable=SC2046  # several words
  LAUNCH=$launcher submit_file "$name" -N 2 --ntasks-per-node=1 --mincpus=1 \
    "${options[@]}" "${script:-$scripts/train.sbatch}" \
    bash -c "$paced" paced $(training "$name") "$@"
}

mpirun=$(submit_paced mpirun mpirun --time=10 --signal=B:USR1@30 --)
srun=$(submit_paced srun "$srun_pmix" --time=10 --signal=B:USR1@30 --)
clock=$(submit_paced clock mpirun --time=1 -- --stop-at-time-limit --margin 45)
async=$(submit_paced async mpirun --time=10 --signal=B:USR1@30 --)
sed '/^#SBATCH --signal/d' "$scripts/train.sbatch" >unwarned.sbatch
script=unwarned.sbatch
late_mpirun=$(submit_paced late_mpirun mpirun --time=10 --)
late_srun=$(submit_paced late_srun "$srun_pmix" --time=10 --)
# shellcheck disable=SC2016  # expanded when the job starts
paced='trap "" TERM USR1; ("$@" --step-seconds "$(<"$work/pace")") || sleep 30'
slow_srun=$(submit_paced slow_srun "$srun_pmix" --time=10 --)
late=("$late_mpirun" "$late_srun" "$slow_srun")
jobs=("$mpirun" "$srun" "$clock" "$async" "${late[@]}")
wait_for_step 20 mpirun srun clock async
scontrol update jobid="$mpirun" TimeLimit=1
scontrol update jobid="$srun" TimeLimit=1
scontrol update jobid="$async" TimeLimit=1
wait_for_step 60 late_mpirun late_srun slow_srun
for job in "${late[@]}"; do scontrol update jobid="$job" EndTime=now+1; done
for job in "${jobs[@]}"; do
  wait_until 60 has_restarted "$job" 1 || fail "job $job was not requeued"
done
echo 0 >pace
for job in "${jobs[@]}"; do
  scontrol update jobid="$job" TimeLimit=10
  start_again_now "$job" 1 10
done
for job in "${jobs[@]}"; do wait_for_end "$job" 90; done
for name in mpirun srun async; do
  expect_line "$name.out" 'batch script: got USR1'
  expect_line "$name.out" 'stopped at step .* because of SIGUSR1 on rank [01]'
done
expect_line clock.out 'stopped at step .* because of the time limit in 4. s'
for name in mpirun srun clock async; do
  expect_line "$name.out" 'batch script: exit code 85'
done
# Slurm may have killed the script before it could say that, and sends SIGTERM to
# the ranks, too, which may be faster than the script's signal.
expect_line late_srun.out 'stopped at step .* because of SIG(USR1|TERM) on rank [01]'
for name in late_mpirun late_srun slow_srun; do
  expect_line "$name.out" 'batch script: the time limit: back into the queue'
done
for job in "${jobs[@]}"; do
  [[ $(field_of "$job" Restarts) -eq 1 ]] || fail "job $job was not requeued once"
done
names=(mpirun srun clock async late_mpirun late_srun slow_srun)
for name in "${names[@]}"; do expect_line "$name.out" 'resumed from step_'; done
expect_whole "${names[@]}"
