#!/usr/bin/env bash
# A chain of jobs: the first one is stopped, the second goes on to the end, and
# the third finds nothing left to do.
source "$(dirname "$0")/../lib.sh"

# shellcheck disable=SC2046  # several words
mapfile -t jobs < <("$scripts/chain.sh" 3 --output="$work/train.out" -N 2 \
  --ntasks-per-node=1 "$scripts/train.sbatch" $(training train))
[[ ${#jobs[@]} -eq 3 ]] || fail "${#jobs[@]} jobs (need 3)"
wait_for_step 60 train
scancel --batch --signal=USR1 "${jobs[0]}"
wait_for_end "${jobs[0]}" 60 FAILED
[[ $(field_of "${jobs[0]}" ExitCode) == 85:0 ]] || fail "not exit code 85"
wait_for_end "${jobs[1]}" 60
expect_line train.out 'not put back into the queue, because of RESTART=no'
expect_line train.out 'resumed from step_'
expect_whole train
wait_for_end "${jobs[2]}" 60
expect_line train.out 'resumed from step_00000300'
