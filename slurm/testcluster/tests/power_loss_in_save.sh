#!/usr/bin/env bash
# The power of the disk fails at 20 random moments of a training that does
# little else than save. Every checkpoint that was reported is there, every one
# that is there is intact, and the training goes on from the last.
# limit: 400
source "$(dirname "$0")/../lib.sh"

RANDOM=20
disk=$local_disk/lossy
new_disk "$disk" 1024
for ((round = 1; round <= 20; ++round)); do
  log=round_$round.out
  # shellcheck disable=SC2086  # several words
  mpirun -n 4 $train --hidden 64 --dir "$disk/run" --resume --save-every 2 \
    --steps 1000000 >"$log" 2>&1 &
  training=$!
  wait_for_line "$log" 'saved step_' 60
  sleep "0.$(printf '%03d' $((RANDOM % 700)))"
  lose_power_of "$disk"
  last=$(grep -o 'saved step_[0-9]*' "$log" | tail -n 1 |
    cut -d' ' -f2)
  if wait "$training"; then fail "round $round: no error without power"; fi
  mount_again "$disk"
  kept=("$disk"/run/step_????????)
  [[ " ${kept[*]} " == *"/$last "* ]] || fail "round $round: $last is gone"
  for step in "${kept[@]: -3}"; do
    "$belay" verify "$step" || fail "round $round: ${step##*/} is not intact"
  done
  echo "round $round: $last was reported, ${#kept[@]} are there"
done
umount "$disk"
