#!/usr/bin/env bash
# The cable of a node is out for 20 seconds, from a moment on at which a save
# waits for the disks. The file system gives up sooner: the training ends with
# that error, from that node, or goes on. Nobody hangs, and the next one goes on
# from the last checkpoint.
source "$(dirname "$0")/../lib.sh"

# start HOSTS FLAGS...: in the background.
start() {
  local hosts=$1
  shift
  # shellcheck disable=SC2086  # several words
  "$here/mpirun-hosts" "$hosts" $train --resume --save-every 100 --steps 400 \
    --loss-log "$work/losses.log" "$@" >>train.out 2>&1 &
}

# cut_in_save STEP: n2, which has rank 2 and 3.
cut_in_save() {
  wait_for_line losses.log "^$(($1 - 50)) " 60
  "$here/storage" slow 2
  wait_for_save 60
  "$here/link" n2 down
}

# The daemons of mpirun shall wait longer than its ranks.
export OMPI_MCA_oob_tcp_keepalive_time=300
start n3:2,n2:2
job=$!
cut_in_save 200
sleep 20
"$here/link" n2 up
"$here/storage" mend
code=0
wait "$job" || code=$?
echo "exit code $code"
if [[ $code -ne 0 ]]; then
  expect_line train.out "^INTERNAL: .*\"$work/run/step_0*200.*: transport endpoint is not connected \\[rank [23] of 4\\]\$"
fi
expect_committed 100

start n1:1,n3:2,n2:2
expect_code 0 wait $!
expect_line train.out 'resumed from step_00000100'
expect_committed 400
expect_same_losses 400 losses.log
