#!/usr/bin/env bash
# Submits several jobs of which each goes on where the one before has stopped:
# for clusters on which jobs may not be put back into the queue. A job that finds
# nothing left to do ends at once.
#
#   ./chain.sh 5 --time=08:00:00 --nodes=4 train.sbatch ./train --resume
#
# usage: chain.sh JOBS [SBATCH OPTIONS] SCRIPT [ARGUMENTS]
#
# Prints the numbers of the jobs. Each starts when the one before has ended,
# however it has, so --dependency is refused; `scancel` them all to stop the chain.
set -euo pipefail
[[ $# -ge 2 && $1 =~ ^[1-9][0-9]*$ ]] ||
  { echo "usage: $0 JOBS [SBATCH OPTIONS] SCRIPT [ARGUMENTS]" >&2; exit 2; }
jobs=$1
shift
for argument in "$@"; do
  [[ ! -f $argument ]] || break  # the script: what follows is of the program
  case $argument in
    # sbatch would take it in the place of the chain's own.
    --dependency | --dependency=* | -d | -d[a-z]*)
      echo "$0: $argument: each job of a chain depends on the one before" >&2
      exit 2
      ;;
  esac
done

export RESTART=no  # the next job of the chain goes on instead
previous=''
for ((number = 0; number < jobs; ++number)); do
  job=$(sbatch --parsable --no-requeue \
    ${previous:+--dependency="afterany:$previous"} "$@")
  previous=${job%%;*}  # without the name of the cluster
  echo "$previous"
done
