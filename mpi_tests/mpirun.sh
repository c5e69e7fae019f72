#!/bin/sh
# mpirun.sh N PROGRAM ARGS...: runs a test on N ranks, quietly, also with more
# ranks than cores and as root. BELAY_TEST_IO=ompio selects the other MPI-IO.
set -eu
ranks=$1
shift
mpirun=${BELAY_MPIRUN:-mpirun}

if ! "$mpirun" --version | grep -q 'Open MPI'; then
  exec "$mpirun" -n "$ranks" "$@"
fi
io=${BELAY_TEST_IO:-romio321}
root=
if [ "$(id -u)" -eq 0 ]; then
  root=--allow-run-as-root
fi
# Idle ranks that do not yield make collectives 100 times slower.
# Containers often forbid reading another process's memory.
exec "$mpirun" $root --oversubscribe \
  --mca mpi_yield_when_idle 1 --mca io "$io" --mca btl self,vader \
  --mca btl_vader_single_copy_mechanism none \
  -n "$ranks" "$@"
