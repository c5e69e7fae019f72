#!/usr/bin/env bash
# The cable of a node is out for 20 seconds while a training on two nodes saves
# again and again. The training waits and goes on; nothing is lost.
source "$(dirname "$0")/../lib.sh"

cut_and_mend() {
  wait_for_line losses.log '^100 ' 60
  "$here/link" n2 down
  sleep 20
  "$here/link" n2 up
}
# The daemons of mpirun shall wait as long as its ranks.
cut_and_mend &
# shellcheck disable=SC2086  # several words
OMPI_MCA_oob_tcp_keepalive_time=300 "$here/mpirun-hosts" n1:2,n2:2 \
  $train --save-every 5 --steps 400 --loss-log "$work/losses.log" >train.out
wait $! || fail "the cable was not cut"
expect_committed 400
expect_same_losses 400 losses.log
