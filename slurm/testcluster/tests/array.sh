#!/usr/bin/env bash
# Two tasks of an array train in directories of their own. The last one, which has
# the number of the array, is told to stop, is put back into the queue alone, and
# goes on.
source "$(dirname "$0")/../lib.sh"

export TRAIN_SBATCH=$scripts/train.sbatch RUNS=$work
# shellcheck disable=SC2046  # several words
array=$(sbatch --parsable --array=1-2 --output="$work/task_%a.out" \
  "$scripts/array.sbatch" $(training none) --dir checkpoints --loss-log losses.log)
wait_for_line 1/losses.log '^60 ' 60
wait_for_line 2/losses.log '^60 ' 60
first=$(squeue -h -j "${array}_1" -O JobID | tr -d ' ')
second=${array}_2
[[ $(squeue -h -j "$second" -O JobID | tr -d ' ') == "$array" ]] ||
  fail "the last task has not the number of the array"
scancel --batch --signal=USR1 "$second"
start_again_now "$second" 1 60
wait_for_end "$first" 60
wait_for_end "$second" 60
expect_line task_2.out 'resumed from step_'
if has_restarted "$first" 1; then fail "task 1 was started again as well"; fi
for task in 1 2; do
  "$belay" verify "$task/checkpoints/step_00000300"
  expect_same_losses 300 "$task/losses.log"
done
