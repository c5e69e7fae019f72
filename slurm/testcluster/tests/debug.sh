#!/usr/bin/env bash
# debug.sbatch shows the error of a fault that it injects, the deadline of a save
# that hangs, and a training without a fault, and verifies what there is.
source "$(dirname "$0")/../lib.sh"

# submit_debug NAME RANKS FAULT [FLAGS]
submit_debug() {
  local name=$1 ranks=$2 fault=$3
  shift 3
  # shellcheck disable=SC2046  # several words
  FAULT=$fault FAULT_RANKS=$ranks RUN=$work/$name BELAY=$belay \
    submit_file "$name" -N 2 --ntasks-per-node=1 "$scripts/debug.sbatch" \
    $(training "$name" 0) --steps 60 --save-every 10 --read-back --deadline 20 "$@"
}

sound=$(submit_debug sound 0 '')
error=$(submit_debug error 1 pwrite64:error=EIO:when=4+)
slow=$(submit_debug slow 0 fsync:delay_enter=9000000:when=9+ --deadline 3)
wait_for_end "$sound" 60
wait_for_end "$error" 60 FAILED
wait_for_end "$slow" 60 FAILED
for name in sound error slow; do
  expect_line "$name.out" "^SLURM_JOB_ID="
  expect_line "$name.out" '^rank 1 on n[1-4]'
  expect_line "$name.out" 'all checksums match'
done
expect_line error.out '^rank 1: fault pwrite64'
expect_line error.out 'nput/output error'
expect_line error.out '^-- exit code 1;'
expect_line slow.out 'belay: deadline: .*(waited 3 s for rank 0|did not return within 3 s)'
expect_line slow.out '^-- exit code 75;'
