#!/bin/sh
# mpirun.sh N PROGRAM ARGS...: runs a test on N ranks, quietly, also with more
# ranks than cores and as root. BELAY_TEST_IO=ompio selects the other MPI-IO,
# BELAY_TEST_ONE_CORE=1 puts all ranks on one core.
set -eu
ranks=$1
shift
mpirun=${BELAY_MPIRUN:-mpirun}

# Two tests may lock a core, here on two directories that describe it. Takes the
# first that is free of the cores that this process may use, else does not pin.
# mpirun holds the lock, as an open descriptor, until it ends.
pin=
if [ -n "${BELAY_TEST_ONE_CORE:-}" ] && command -v flock taskset >/dev/null
then
  cpus=/sys/devices/system/cpu
  for lock in "$cpus"/cpu[0-9]* "$cpus"/cpu[0-9]*/topology; do
    core=${lock#"$cpus"/cpu}
    core=${core%/topology}
    [ -r "$lock" ] && taskset -c "$core" true 2>/dev/null || continue
    exec 9<"$lock"
    if flock -n 9; then
      pin="taskset -c $core"
      break
    fi
    exec 9<&-
  done
fi

if ! "$mpirun" --version | grep -q 'Open MPI'; then
  exec $pin "$mpirun" -n "$ranks" "$@"
fi
io=${BELAY_TEST_IO:-romio321}
root=
if [ "$(id -u)" -eq 0 ]; then
  root=--allow-run-as-root
fi
# Idle ranks that do not yield make collectives 100 times slower. One or two
# ranks would be bound to the first cores, whatever other tests run there.
# Containers often forbid reading another process's memory.
exec $pin "$mpirun" $root --oversubscribe --bind-to none \
  --mca mpi_yield_when_idle 1 --mca io "$io" --mca btl self,vader \
  --mca btl_vader_single_copy_mechanism none \
  -n "$ranks" "$@"
