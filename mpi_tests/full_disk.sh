#!/bin/sh
# full_disk.sh tmpfs|ext2 COMMAND...: runs a command with BELAY_FULL_DISK, a
# file system of 4 MiB that only its processes see. Exits with 77, "skipped",
# where that is not permitted. ext2 cannot reserve space.
set -eu
kind=$1
shift
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/disk"

skip() {
  echo "skipped: $1" >&2
  exit 77
}

unshare -m true 2>/dev/null || skip 'needs the right to mount'
case $kind in
  tmpfs) mount='mount -t tmpfs -o size=4m,mode=777 none' ;;
  ext2)
    command -v mke2fs >/dev/null || skip 'needs mke2fs'
    truncate -s 4M "$place/image"
    mke2fs -q -t ext2 -m 0 "$place/image"
    mount="mount -t ext2 -o loop $place/image"
    ;;
esac
export BELAY_FULL_DISK="$place/disk"
export place mount
unshare -m sh -c '$mount "$place/disk" 2>/dev/null || exit 77; "$@"' sh "$@" ||
  { code=$?; [ $code -ne 77 ] || skip "cannot mount $kind"; exit $code; }
