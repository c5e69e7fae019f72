#!/usr/bin/env bash
# The power of the disk fails right after Save returned: the checkpoint is there,
# every byte of it. Ten times, so that no write-back in the background helps.
source "$(dirname "$0")/../lib.sh"

disk=$local_disk/lossy
new_disk "$disk" 256

echo "-- without an fsync, nothing is kept"
echo data >"$disk/lost"
lose_power_of "$disk"
mount_again "$disk"
[[ ! -s $disk/lost ]] || fail "the power loss loses nothing"

echo "-- without its fsyncs, the library loses a checkpoint: this test would see"
no_fsync=("$here/faulty-rank" all "fsync,fdatasync,syncfs:retval=0")
mpirun -n 4 "${no_fsync[@]}" "$build/examples/01_save_one_array" "$disk/run_0"
lose_power_of "$disk"
mount_again "$disk"
if "$belay" verify "$disk/run_0/step_00000001"; then
  fail "a checkpoint survived without an fsync"
fi

for ((round = 1; round <= 10; ++round)); do
  echo "-- round $round"
  mpirun -n 4 "$build/examples/01_save_one_array" "$disk/run_$round"
  lose_power_of "$disk"
  mount_again "$disk"
  "$belay" verify "$disk/run_$round/step_00000001" ||
    fail "round $round: the checkpoint is not intact"
done
umount "$disk"
