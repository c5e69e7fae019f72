#!/bin/sh
# fused_test.sh DIR LAUNCHER PROGRAM...: each program saves on 4 ranks in an empty
# directory, and all of them restore that on 2, 3 and 8.
set -eu
dir=$1 launcher=$2
shift 2
rm -rf "$dir"
mkdir -p "$dir"
number=0
for saver in "$@"; do
  number=$((number + 1))
  "$launcher" 4 "$saver" "$dir/$number" save
  for reader in "$@"; do
    for ranks in 2 3 8; do
      "$launcher" $ranks "$reader" "$dir/$number" restore
    done
  done
done
