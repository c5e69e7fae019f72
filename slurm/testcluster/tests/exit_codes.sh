#!/usr/bin/env bash
# What train.sbatch makes of exit codes: 85 and crashes start the job again, the
# latter not for ever; what the program means by its own is passed on.
source "$(dirname "$0")/../lib.sh"

# submit_program NAME PROGRAM [SBATCH OPTIONS]: a program of bash on one rank.
submit_program() {
  local name=$1 program=$2
  shift 2
  LAUNCH="mpirun -n 1" submit_file "$name" -N 1 --ntasks-per-node=1 \
    --mincpus=1 "$@" "$scripts/train.sbatch" bash -c "$program"
}
# expect_exit JOB STATE CODE RESTARTS
expect_exit() {
  wait_for_end "$1" 60 "$2"
  [[ $(field_of "$1" ExitCode) == "$3" && $(field_of "$1" Restarts) == "$4" ]] ||
    fail "job $1 ended with $(field_of "$1" ExitCode) after $(field_of "$1" Restarts) restarts (need $3, $4)"
}

export MAX_RESTARTS=1
finished=$(submit_program finished true)
own=$(submit_program own 'exit 3')
crash=$(submit_program crash 'kill -SEGV $$')
deadline=$(submit_program deadline 'exit 75')
absurd=$(SLURM_RESTART_COUNT=x submit_program absurd 'kill -SEGV $$')
refused=$(submit_program refused 'exit 85' --no-requeue)
# Not counted as a crash: more often than MAX_RESTARTS.
# shellcheck disable=SC2016  # expanded in the job
stopped=$(submit_program stopped '[[ $SLURM_RESTART_COUNT == 2 ]] || exit 85')
expect_exit "$finished" COMPLETED 0:0 0
expect_exit "$own" FAILED 3:0 0
for job in "$crash" "$deadline" "$stopped"; do start_again_now "$job" 1 30; done
start_again_now "$stopped" 2 30
expect_exit "$crash" FAILED 139:0 1
expect_line crash.out 'ended with 139, and not started again .MAX_RESTARTS is 1.'
expect_exit "$deadline" FAILED 75:0 1
expect_exit "$absurd" FAILED 139:0 0
expect_line absurd.out 'SLURM_RESTART_COUNT=x is no count'
expect_exit "$refused" FAILED 85:0 0
expect_line refused.out 'Slurm refused to start the job again'
expect_exit "$stopped" COMPLETED 0:0 2

echo "-- outside of Slurm"
code=0
bash "$scripts/train.sbatch" bash -c 'exit 85' >outside.out || code=$?
[[ $code -eq 85 ]] || fail "exit code $code (need 85)"
expect_line outside.out 'no Slurm job, start it again by hand'

echo "-- a rank of a training is killed"
killed=$(submit_training killed mpirun)
wait_for_step 60 killed
on n2 pkill -KILL -x char_lm
start_again_now "$killed" 1 60
wait_for_end "$killed" 60
expect_line killed.out 'batch script: ended with 137: back into the queue'
expect_line killed.out 'resumed from step_'
expect_whole killed
