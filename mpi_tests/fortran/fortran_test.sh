#!/bin/sh
# fortran_test.sh DIR LAUNCHER RANKS PROGRAM [CPP PYTHON SCRIPT]: runs PROGRAM in
# an empty directory; a program in C++ and one with h5py read what it has saved.
set -eu
dir=$1 launcher=$2 ranks=$3 program=$4
rm -rf "$dir"
mkdir -p "$dir"
"$launcher" "$ranks" "$program" "$dir"
if [ $# -gt 4 ]; then
  "$launcher" 2 "$5" "$dir"
  "$6" -B "$7" "$dir"
fi
