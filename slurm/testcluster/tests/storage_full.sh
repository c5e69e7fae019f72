#!/usr/bin/env bash
# The network file system is full when a training saves. Every rank ends with
# the same error, which says so; the checkpoint before is intact; and when there
# is space again, the training goes on from it.
source "$(dirname "$0")/../lib.sh"

start() {
  submit train -N 2 --ntasks-per-node=2 <<'END_OF_JOB'
srun --mpi=pmix $train --resume --save-every 100 \
  --steps 1000 --loss-log "$work/losses.log"
END_OF_JOB
}

job=$(start)
wait_for_line losses.log '^250 ' 60 "$job"
"$here/storage" full 1
wait_for_end "$job" 120 FAILED
expect_line train.out '^RESOURCE_EXHAUSTED: reserve ".*": no space left \(need [0-9]+ bytes, found [0-9]+\) \[rank [0-3] of 4\]$'
"$belay" verify run

"$here/storage" mend
job=$(start)
wait_for_end "$job" 120
expect_line train.out 'resumed from step_'
expect_committed 1000
expect_same_losses 1000 losses.log
