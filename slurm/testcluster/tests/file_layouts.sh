#!/usr/bin/env bash
# Checkpoints with one file for all, for each node and for each rank, saved by
# four ranks on two nodes and gone on from by six on three. What is written is
# synced once per node and data file, whoever wrote it.
source "$(dirname "$0")/../lib.sh"

# Which files a rank syncs, in sync.LAYOUT.HOST.RANK.
# shellcheck disable=SC2016  # expanded on the node
watch_syncs='exec strace -f --seccomp-bpf -y -qq -e trace=fsync,fdatasync \
  -o "$0.$(hostname).$PMIX_RANK" "$@"'

# syncs_of HOST LAYOUT: of data files, by both ranks there.
syncs_of() { cat "sync.$2.$1".* | grep -cE '/data_[0-9]+_of_[0-9]+\.h5' || true; }

# try_layout LAYOUT FILES SYNCS: so many data files in a step, and so many syncs
# of them on each node.
try_layout() {
  local step=run_$1/step_00000030 host files
  # The first step is saved.
  # shellcheck disable=SC2086  # several words
  "$here/mpirun-hosts" n1:2,n2:2 sh -c "$watch_syncs" "$work/sync.$1" \
    $train --dir "$work/run_$1" --files "$1" --save-every 30 --steps 1 \
    --loss-log "$work/$1.log"
  for host in n1 n2; do
    [[ $(syncs_of "$host" "$1") -eq $3 ]] ||
      fail "$1: $(syncs_of "$host" "$1") syncs of data files on $host (need $3)"
  done
  # shellcheck disable=SC2086  # several words
  "$here/mpirun-hosts" n1:2,n2:2 $train --dir "$work/run_$1" --files "$1" \
    --resume --save-every 30 --steps 45 --loss-log "$work/$1.log"
  files=$(find "$step" -name 'data_*.h5' | wc -l)
  [[ $files -eq $2 ]] || fail "$1: $files data files (need $2)"
  "$belay" verify "$step"
  # shellcheck disable=SC2086  # several words
  "$here/mpirun-hosts" n2:2,n3:2,n4:2 $train --dir "$work/run_$1" \
    --files "$1" --resume --save-every 30 --steps 60 --loss-log "$work/$1.log" |
    grep 'resumed from step_00000030'
  "$belay" verify "run_$1/step_00000060"
  expect_same_losses 60 "$1.log"
}
try_layout shared 1 1
try_layout per_node 2 1
try_layout per_task 4 2
