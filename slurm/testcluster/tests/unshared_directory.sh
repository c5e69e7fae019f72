#!/usr/bin/env bash
# One node does not see the network file system. A manager, a save and a restore
# say which one, on all ranks at once, and nothing is left half done.
source "$(dirname "$0")/../lib.sh"

example=$build/examples/03_other_rank_count
cd /  # not on the network, or the hosts that do not see it could not enter

# expect_refusal TEXT COMMAND...: ends with 1 and this line.
expect_refusal() {
  local text=$1 said code=0
  shift
  said=$(timeout 60 "$@" 2>&1) || code=$?
  [[ $code -eq 1 ]] || fail "exit code $code (need 1): $* said $said"
  grep -qE "$text" <<<"$said" || fail "$* said: $said (need $text)"
}
# How long a host waits for what another one has made depends on the deadline.
hasty="$train --deadline 4 --save-every 100"
on_two_nodes=("$here/mpirun-hosts" "n1:2,n2:2")
# What all of them say.
unseen='was not seen within [0-9]+ s by "n2" \(rank 2\); all ranks need the same path on a shared file system$'

"${on_two_nodes[@]}" "$example" "$work/table" save
"$here/view" n2 none

echo "-- at the start of a manager"
# shellcheck disable=SC2086  # several words
expect_refusal "^FAILED_PRECONDITION: manage \"$work/run\": what rank 0 made on host \"n1\" $unseen" \
  "${on_two_nodes[@]}" $hasty --steps 10

echo "-- in a save"
expect_refusal "^FAILED_PRECONDITION: save \"$work/other/step_00000007.inprogress\": what rank 0 made on host \"n1\" $unseen" \
  "${on_two_nodes[@]}" "$example" "$work/other" save
[[ -z $(compgen -G "$work/other/step_*") ]] || fail "a step was left"

echo "-- in a restore"
expect_refusal "^FAILED_PRECONDITION: read \"$work/table/step_00000007\": host \"n2\" does not see what rank 0 has opened; all ranks need the same path on a shared file system \[rank [23] of 4\]$" \
  "${on_two_nodes[@]}" "$example" "$work/table" load

echo "-- when it is back"
"$here/view" n2 all
"${on_two_nodes[@]}" "$example" "$work/table" load
"${on_two_nodes[@]}" "$example" "$work/other" save
cd "$work"
# shellcheck disable=SC2086  # several words
"${on_two_nodes[@]}" $hasty --steps 100 --loss-log "$work/losses.log"

echo "-- it goes away in the middle of a training"
cd /
# shellcheck disable=SC2086  # several words
"${on_two_nodes[@]}" $hasty --steps 1000000 --resume \
  --loss-log "$work/losses.log" >"$work/blind.out" 2>&1 &
job=$!
wait_for_line "$work/losses.log" '^250 ' 60
"$here/view" n2 none
expect_code 1 wait "$job"
expect_line "$work/blind.out" "^UNAVAILABLE: save \"$work/run/step_[0-9]*.inprogress\": what rank 0 made on host \"n1\" $unseen"
"$here/view" n2 all
cd "$work"
steps=$(($(sort -n losses.log | tail -n 1 | cut -d' ' -f1) + 50))
# shellcheck disable=SC2086  # several words
"${on_two_nodes[@]}" $hasty --steps "$steps" --resume \
  --loss-log "$work/losses.log"
expect_same_losses "$steps" losses.log
