#!/bin/sh
# c_test.sh DIR LAUNCHER RANKS PROGRAM: runs the program in an empty directory.
set -eu
dir=$1
shift
rm -rf "$dir"
mkdir -p "${dir%/*}"
exec "$@" "$dir"
