# shellcheck shell=bash
# Sourced by every test: jobs, waiting, and what is expected of them. A test runs
# in the head of a fresh cluster, in a directory on the network file system.
#
# usage in a test: source "$(dirname "$0")/../lib.sh"
set -euo pipefail
export LC_ALL=C
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$here/storage.sh"

# Batch scripts may use what is exported here.
export build=${BELAY_TEST_BUILD:?run the tests with ./dev cluster-test}
export work=$shared/work
export belay=$build/tools/belay
# A model that takes about a hundredth of a second per step. $train is several
# words: leave it unquoted.
export train="$build/examples/char_lm --hidden 256 --batch 8 \
  --report-every 50 --dir $work/run"
out=$(logs_in "$build")

mkdir -p "$work"
cd "$work"

fail() { echo "failed: $*"; exit 1; }
skip() { echo "$*"; exit "$skip_status"; }

# What a reader of the log of a failed test wants to know.
tell_state() {
  [[ $1 -eq 0 || $1 -eq $skip_status ]] && return
  echo "-- jobs and nodes at the end"
  timeout 10 squeue -a -o '%i %j %T %r %M %D %R' || true
  timeout 10 sinfo -N -p low -o '%N %t %E' || true
  local file
  for file in "$work"/*.out; do
    echo "-- ${file##*/}"
    timeout 10 tail -n 40 "$file" || true
  done
}
trap 'tell_state $?' EXIT

# submit NAME [SBATCH OPTIONS]: the script comes from standard input, its output
# goes to NAME.out, after what it wrote before a requeue. Prints the job's id.
submit() {
  local name=$1
  shift
  { echo '#!/usr/bin/env bash'; cat; } |
    sbatch --parsable --job-name="$name" --output="$work/$name.out" \
      --open-mode=append "$@"
}

# submit_until_node_dies NODES STEPS SAVE_EVERY: a training with one rank on each
# node that it gets. Its losses go to losses.log. Prints the job's id.
submit_until_node_dies() {
  steps=$2 save_every=$3 submit train -N "$1" --requeue <<'END_OF_JOB'
echo "start ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NUM_NODES nodes, script on $SLURMD_NODENAME"
srun --mpi=pmix -n "$SLURM_JOB_NUM_NODES" $train --resume --steps "$steps" \
  --save-every "$save_every" --loss-log "$work/losses.log"
# To end now would be the end of the job, before Slurm sees the dead node.
[[ $? -eq 0 ]] || sleep 300
END_OF_JOB
}

# field_of JOB FIELD: as `scontrol show job` has it, like JobState or Restarts.
field_of() {
  scontrol show job -o "$1" | grep -oE "(^| )$2=[^ ]*" | head -n 1 | cut -d= -f2
}

has_state() { [[ $(field_of "$1" JobState) == "$2" ]]; }
# wait_for_state JOB STATE SECONDS
wait_for_state() {
  wait_until "$3" has_state "$1" "$2" ||
    fail "job $1 is $(field_of "$1" JobState) after $3 s (need $2)"
}

has_line() { grep -qE "$2" "$1" 2>/dev/null; }
# wait_for_line FILE REGEX SECONDS [JOB]: no longer than the job lives.
wait_for_line() {
  wait_until "$3" has_line_or_ended "$1" "$2" "${4:-}" && has_line "$1" "$2" ||
    fail "no line \"$2\" in $1 (waited for $3 s or the end of job ${4:-none})"
}
has_line_or_ended() {
  has_line "$1" "$2" || { [[ -n $3 ]] && has_ended "$3"; }
}
expect_line() { has_line "$1" "$2" || fail "no line \"$2\" in $1"; }

has_ended() {
  [[ $(field_of "$1" JobState) =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|PREEMPTED|OUT_OF_MEMORY)$ ]]
}
# wait_for_end JOB SECONDS [STATE]: that it ends, and as COMPLETED if no other
# state is named.
wait_for_end() {
  local state_at_end
  wait_until "$2" has_ended "$1" ||
    fail "job $1 is $(field_of "$1" JobState) after $2 s (need its end)"
  state_at_end=$(field_of "$1" JobState)
  [[ $state_at_end == "${3:-COMPLETED}" ]] ||
    fail "job $1 ended as $state_at_end, exit code $(field_of "$1" ExitCode)" \
      "(need ${3:-COMPLETED})"
}

has_restarted() { [[ $(field_of "$1" Restarts) -ge $2 ]]; }
# start_again_now JOB RESTARTS SECONDS: waits until the job is in the queue for
# the so-many-th time, and spares it the two minutes that Slurm lets it wait. Not
# all of them: a node refuses a job that it was told to end in the same second.
start_again_now() {
  wait_until "$3" has_restarted "$1" "$2" ||
    fail "job $1 was not requeued after $3 s, it is $(field_of "$1" JobState)"
  wait_for_state "$1" PENDING 30
  scontrol update jobid="$1" StartTime=now+2
}

# new_disk DIR MIB: a file system of its own for the head, at DIR.
new_disk() {
  mkdir -p "$1"
  truncate -s "$2M" "$1.img"
  mkfs.ext4 -q -F -m 0 "$1.img"
  mount -o loop "$1.img" "$1"
}
# lose_power_of DIR: what no fsync had asked to write is gone from that disk,
# and who has a file open there gets errors. mount_again repairs it, when
# nobody uses it any more, as a restart would.
lose_power_of() { drop_unwritten head "$1"; }
mount_again() {
  umount "$1"
  mount -o loop "$1.img" "$1"
}

# expect_committed STEP: the step is there and every byte of it is right.
expect_committed() {
  "$belay" verify "$(printf '%s/run/step_%08d' "$work" "$1")" ||
    fail "step $1 is not intact"
}

# expect_same_losses STEPS LOG...: together the logs hold the losses of a
# training that was never stopped, to the last bit. A step that was done again
# must give the same line again: then it counts once.
expect_same_losses() {
  local steps=$1 whole=$out/losses_$1.log
  shift
  if [[ ! -e $whole ]]; then
    rm -f "$whole.new"
    # shellcheck disable=SC2086  # several words
    mpirun -n 2 $train --dir "$local_disk/whole" --save-every 0 \
      --steps "$steps" --loss-log "$whole.new"
    mv "$whole.new" "$whole"
  fi
  sort -u "$@" | sort -n >pieces.log
  cmp pieces.log "$whole" || fail "the losses differ"
  [[ $(wc -l <pieces.log) -eq $steps ]] || fail "not $steps losses"
  echo "$steps of $steps losses are the same to the last bit"
}

# slow_save SECONDS: makes every fsync so slow, and returns when a save of the
# run has begun to write its data. That step is $saving.
slow_save() {
  "$here/storage" slow "$1"
  wait_until 60 is_not_saving || fail "a save does not end"
  wait_until 60 is_saving || fail "nothing saves after 60 s"
}
is_saving() {
  saving=$(compgen -G "$work/run/step_*.inprogress/data_*") || return
  saving=${saving#*/step_}
  saving=$((10#${saving%%.*}))
}
is_not_saving() { ! is_saving; }
# find_last EVERY: once nobody saves any more, $last is the step to go on from:
# the one before $saving, or $saving itself, where a busy machine was so slow to
# make the fault that the save had ended.
find_last() {
  last=$((saving - $1))
  [[ -e $(printf '%s/run/step_%08d' "$work" "$saving") ]] || return 0
  last=$saving
  echo "note: step $saving was committed before the fault"
}

# signal_rank SIGNAL HOST RANK: to the trainer that is this rank, on this host.
signal_rank() {
  local pid
  for pid in $(on "$2" pgrep -x char_lm); do
    # The process numbers are the host's own, as its /proc has them.
    if on "$2" grep -qzx "PMIX_RANK=$3" "/proc/$pid/environ"; then
      on "$2" kill "-$1" "$pid"
      return
    fi
  done
  fail "no trainer on $2 is rank $3"
}

# expect_code CODE COMMAND...: it ends with this exit code.
expect_code() {
  local need=$1 code=0
  shift
  "$@" || code=$?
  [[ $code -eq $need ]] || fail "exit code $code (need $need): $*"
}

# --- With the scripts that users copy, slurm/*.sbatch ---

scripts=$(cd "$here/.." && pwd)
# A training of 300 steps that saves every 50 in $work/NAME and logs its losses
# in NAME.log, and sleeps in each step, so that there is time to disturb it. One
# with async in its name saves in the background.
# Several words, as $train.
training() {
  local async=''
  [[ $1 != *async* ]] || async=--async
  echo "$train --dir $work/$1 --loss-log $work/$1.log --resume --steps 300" \
    "--save-every 50 --step-seconds ${2:-0.02} --tolerated-failures 3 $async"
}
# submit_file NAME [SBATCH OPTIONS] SCRIPT ARGUMENTS...: as submit.
submit_file() {
  local name=$1
  shift
  sbatch --parsable --job-name="$name" --output="$work/$name.out" "$@"
}
# submit_training NAME LAUNCHER [SBATCH OPTIONS]: by train.sbatch, on two nodes.
submit_training() {
  local name=$1 launcher=$2
  shift 2
  # shellcheck disable=SC2046  # several words
  LAUNCH=$launcher submit_file "$name" -N 2 --ntasks-per-node=1 --mincpus=1 "$@" \
    "$scripts/train.sbatch" $(training "$name")
}
export srun_pmix="srun --mpi=pmix --kill-on-bad-exit=0"

# wait_for_step STEP NAME...: until each of these trainings has done it.
wait_for_step() {
  local step=$1 name
  shift
  for name in "$@"; do wait_for_line "$name.log" "^$step " 60; done
}
# expect_whole NAME...: each has its last checkpoint and the losses of a training
# that was never stopped.
expect_whole() {
  local name
  for name in "$@"; do
    "$belay" verify "$work/$name/step_00000300" || fail "$name is not intact"
    expect_same_losses 300 "$name.log"
  done
}
