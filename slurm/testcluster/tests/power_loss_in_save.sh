#!/usr/bin/env bash
# The power of the disk fails at random moments of a training that does little
# else than save. Every checkpoint that was reported is there, every one that is
# there is intact, and the training goes on from the last to the same losses.
# BELAY_POWER_LOSSES says how often the power fails, 10 times otherwise.
# limit: 1500
source "$(dirname "$0")/../lib.sh"

rounds=${BELAY_POWER_LOSSES:-10}
RANDOM=20
disk=$local_disk/lossy
# Small, so that nearly all the time goes into saving.
small="$train --hidden 32 --batch 4 --dir $disk/run"
new_disk "$disk" 2048
for ((round = 1; round <= rounds; ++round)); do
  log=round_$round.out
  # Each other time in the background.
  mode=()
  ((round % 2 == 1)) || mode=(--async)
  # shellcheck disable=SC2086  # several words
  mpirun -n $((1 + round % 4)) $small "${mode[@]}" --resume --save-every 1 \
    --steps 1000000 --loss-log "$work/losses.log" >"$log" 2>&1 &
  training=$!
  wait_for_line "$log" 'saved step_' 60
  sleep "0.$(printf '%03d' $((RANDOM % 400)))"
  lose_power_of "$disk"
  last=$(grep -o 'saved step_[0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)
  if wait "$training"; then fail "round $round: no error without power"; fi
  mount_again "$disk"
  kept=("$disk"/run/step_????????)
  [[ " ${kept[*]} " == *"/$last "* ]] || fail "round $round: $last is gone"
  for step in "${kept[@]: -3}"; do
    "$belay" verify "$step" || fail "round $round: ${step##*/} is not intact"
  done
  rm -rf "${kept[@]:0:${#kept[@]}-2}"
  rm "$log"
  echo "round $round: $last was reported, ${#kept[@]} are there"
done

log=last.out
last=$((10#${kept[-1]##*step_}))
# shellcheck disable=SC2086  # several words
mpirun -n 3 $small --resume --save-every 1 --steps $((last + 5)) \
  --loss-log "$work/losses.log" >"$log"
expect_line "$log" "resumed from ${kept[-1]##*/}:"
# What was done after the last checkpoint was done again: the same lines.
# shellcheck disable=SC2086  # several words
mpirun -n 2 $small --save-every 0 --dir "$disk/none" --steps $((last + 5)) \
  --loss-log "$work/whole.log" >/dev/null
awk -v end=$((last + 5)) '$1 <= end' losses.log | sort -u | sort -n | cmp - whole.log ||
  fail "the losses differ"
echo "$rounds times without power: $((last + 5)) losses are the same to the last bit"
umount "$disk"
