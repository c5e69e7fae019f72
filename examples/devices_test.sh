#!/usr/bin/env bash
# Checks what 12_devices_and_files, `belay ls --shards` and h5py print about its
# step.
#
# usage: devices_test.sh EXPECTED MPIRUN PROGRAM BELAY DIR [PYTHON SCRIPT]
set -euo pipefail
expected=$1 mpirun=$2 program=$3 belay=$4 dir=$5
rm -rf "$dir"
mkdir -p "$dir"
cd "$dir"
export BELAY_JOB_NAME=train SOURCE_DATE_EPOCH=1700000000
{
  "$mpirun" 2 "$program" run
  "$belay" ls --shards run
  echo
  if [ $# -gt 5 ]; then "$6" -B "$7" run/step_00000001/index.h5; fi
} >found
if [ $# -le 5 ]; then
  sed '/^object /,$d' "$expected" >needed
else
  cp "$expected" needed
fi
diff needed found
