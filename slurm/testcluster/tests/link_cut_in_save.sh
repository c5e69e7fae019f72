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
  "$here/mpirun-hosts" "$hosts" $train --resume --save-every 100 --steps 800 \
    --loss-log "$work/losses.log" "$@" >>train.out 2>&1 &
}

# The daemons of mpirun shall wait longer than its ranks.
export OMPI_MCA_oob_tcp_keepalive_time=300
start n3:2,n2:2
job=$!
wait_for_line losses.log '^120 ' 60
slow_save 2
"$here/link" n2 down
sleep 20
"$here/link" n2 up
"$here/storage" mend
code=0
wait "$job" || code=$?
echo "exit code $code"
if [[ $code -ne 0 ]]; then
  expect_line train.out "^UNAVAILABLE: .*\"$work/run/step_0*$saving.*: transport endpoint is not connected \\[rank [23] of 4\\]\$"
fi
find_last 100
expect_committed "$last"

start n1:1,n3:2,n2:2
expect_code 0 wait $!
expect_committed 800
expect_same_losses 800 losses.log
