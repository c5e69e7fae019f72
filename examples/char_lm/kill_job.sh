# shellcheck shell=bash
# Sourced by demo.sh and char_lm_test.sh: ends an MPI job as a power cut would.

# processes_of PID: prints the process and all its descendants. Starts no
# process itself, to be quick.
processes_of() {
  local thread child children
  echo "$1"
  for thread in "/proc/$1/task/"*; do
    read -r -a children <"$thread/children" || true
    for child in "${children[@]}"; do processes_of "$child"; done
  done 2>/dev/null
}

# kill_job PID: sends kill -9 to all of them in one call, so that none has time
# to clean up, and then removes the shared memory that Open MPI leaves behind.
kill_job() {
  local pids segments pid
  mapfile -t pids < <(processes_of "$1")
  kill -STOP "${pids[@]}" 2>/dev/null || true
  segments=$(for pid in "${pids[@]}"; do
    grep -so '/dev/shm/vader_segment[^ ]*' "/proc/$pid/maps" || true
  done | sort -u)
  kill -9 "${pids[@]}" 2>/dev/null || true
  # The shell would report the death of its own child here.
  { wait "$1" || true; } 2>/dev/null
  [[ -z $segments ]] || xargs rm -f <<<"$segments"
  for pid in "${pids[@]}"; do
    rm -rf "${TMPDIR:-/tmp}/ompi.$(uname -n).$(id -u)/pid.$pid"
  done
}
