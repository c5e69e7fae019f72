#!/usr/bin/env bash
# The cable of a node is out for 20 seconds, ten times, at random moments of a
# training on two nodes that saves again and again. Saves fail that need the node;
# the training goes on, and ends with nothing lost and nothing done twice.
# limit: 900
source "$(dirname "$0")/../lib.sh"

cuts=10 steps=1000
cut_again_and_again() {
  local cut part=$((steps / cuts)) pause
  for ((cut = 0; cut < cuts; ++cut)); do
    wait_for_line losses.log "^$((cut * part + 1 + RANDOM % (part - 1))) " 200
    pause=0.$(printf %03d $((RANDOM % 300)))
    sleep "$pause"
    echo "cut $cut at $SECONDS s, $pause s after step $(wc -l <losses.log)"
    "$here/link" n2 down
    sleep 20
    "$here/link" n2 up
  done
}

# The daemons of mpirun shall wait as long as its ranks: a probe of their idle
# connection that falls into a cut ends the job.
# shellcheck disable=SC2086  # several words
OMPI_MCA_oob_tcp_keepalive_time=3000 "$here/mpirun-hosts" n1:2,n2:2 \
  $train --save-every 5 --steps "$steps" --tolerated-failures 1000 \
  --loss-log "$work/losses.log" >train.out 2>&1 &
training=$!
cut_again_and_again
expect_code 0 wait "$training"
grep -c 'note: the save of step .* failed' train.out || true
expect_committed "$steps"
[[ $(wc -l <losses.log) -eq $steps ]] || fail "steps were done twice"
expect_same_losses "$steps" losses.log
