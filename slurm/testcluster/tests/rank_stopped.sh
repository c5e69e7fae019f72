#!/usr/bin/env bash
# A rank stops in the middle of a save without dying: nobody can know, but its
# silence lasts. The deadline ends the job and says who was missing, by mpirun
# and by srun, and the next job goes on from the last checkpoint. The ranks that
# waited end with code 75, which is that of mpirun. That of srun is the largest
# of all ranks: it has to kill the one that is stopped, which counts as 137.
source "$(dirname "$0")/../lib.sh"

patient="$train --resume --deadline 6 --save-every 100 --steps 800
  --loss-log $work/losses.log"
export patient

# stop_in_save OUTPUT: rank 2, on n2, while a step is saved.
stop_in_save() {
  wait_for_line "$1" ' saved step_' 60
  slow_save 2
  signal_rank STOP n2 2
}
# expect_missed OUTPUT
expect_missed() {
  expect_line "$1" "^belay: deadline: save \"$work/run/step_0*$saving\", stage [a-z ]*: waited 6 s for rank 2 of 4(; rank 2 writes \"[^\"]*\".*|; ranks may be in different calls)?; ending the job with exit code 75\$"
}

echo "-- mpirun"
# shellcheck disable=SC2086  # several words
"$here/mpirun-hosts" n1:2,n2:2 $patient >mpirun.out 2>&1 &
job=$!
stop_in_save mpirun.out
expect_code 75 wait "$job"
"$here/storage" mend
expect_missed mpirun.out
find_last 100
first=$last

echo "-- srun"
job=$(submit srun -N 2 --ntasks-per-node=2 <<'END_OF_JOB'
srun --mpi=pmix $patient
echo "srun ended with $?"
END_OF_JOB
)
stop_in_save srun.out
wait_for_end "$job" 60
"$here/storage" mend
expect_missed srun.out
find_last 100
expect_line srun.out '^srun: error: .* Exited with exit code 75$'
expect_line srun.out '^srun ended with 137$'

# shellcheck disable=SC2086  # several words
"$here/mpirun-hosts" n1:2,n2:2,n3:2 $patient >last.out 2>&1
expect_line srun.out "resumed from step_0*$first"
expect_line last.out "resumed from step_0*$last"
expect_committed 800
expect_same_losses 800 losses.log
