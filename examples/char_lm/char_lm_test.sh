#!/usr/bin/env bash
# Checks that training gives the same losses to the last bit on any number of
# ranks, after a kill -9 and a restart on another number, and after a stop by a
# signal or by a time limit.
#
# usage: char_lm_test.sh MPIRUN TRAINER SCRATCH_DIR
set -euo pipefail
export LC_ALL=C

mpirun=$1 trainer=$2 scratch=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/kill_job.sh"
rm -rf "$scratch"
mkdir "$scratch"
cd "$scratch"

fail() { printf 'char_lm_test: %s\n' "$1" >&2; exit 1; }

# train RANKS LOG FLAGS...
train() {
  local ranks=$1 log=$2
  shift 2
  "$mpirun" "$ranks" "$trainer" --text "$here" --context 5 --embedding 7 \
    --batch 6 --loss-log "$log" "$@"
}

# expect_same LOG OTHER LINES
expect_same() {
  [[ $(wc -l <"$1") -eq $3 ]] || fail "$1: $(wc -l <"$1") lines (need $3)"
  cmp "$1" "$2" || fail "$1 and $2: the losses differ"
}

echo "-- 12 steps on 1, 3 and 4 ranks; 4 hidden units on 1 and 7 ranks"
for ranks in 1 3 4; do
  train "$ranks" "on_$ranks.log" --hidden 50 --steps 12 --save-every 0
done
expect_same on_1.log on_3.log 12
expect_same on_1.log on_4.log 12
for ranks in 1 7; do
  train "$ranks" "tiny_on_$ranks.log" --hidden 4 --steps 12 --save-every 0
done
expect_same tiny_on_1.log tiny_on_7.log 12
if cmp -s on_1.log tiny_on_1.log; then fail "other models, same losses"; fi

echo "-- killed on 4 ranks, resumed on 3"
train 4 killed.log --hidden 50 --steps 1000000 --save-every 5 --async \
  --report-every 1000000 >killed.out 2>&1 &
job=$!
until [[ -e run/step_00000010 ]]; do
  kill -0 "$job" 2>/dev/null || { cat killed.out; fail "the training ended"; }
  sleep 0.01
done
kill_job "$job"
last=$(find run -maxdepth 1 -name 'step_????????' | sort | tail -n 1)
last=$((10#${last##*step_}))
end=$((last + 8))
train 3 resumed.log --hidden 50 --steps "$end" --save-every 5 --resume --async |
  tee resumed.out
grep -q "resumed from $(printf 'step_%08d' "$last"):" resumed.out ||
  fail "did not resume from step $last"
[[ $(wc -l <resumed.log) -eq 8 ]] || fail "not 8 steps after the restart"

# stopped CODE OUTPUT REASON: checks that the job stopped for REASON, after a
# last save.
stopped() {
  [[ $1 -eq 85 ]] || { cat "$2"; fail "exit code $1 (need 85)"; }
  grep -q "stopped at step .* because of $3: start it again" "$2" ||
    { cat "$2"; fail "no line about $3"; }
  [[ -e $(printf 'run/step_%08d' "$(sed -n 's/.*stopped at step \([0-9]*\) .*/\1/p' "$2")") ]] ||
    fail "no last save"
}

echo "-- asked to stop by a signal, on 4 ranks"
train 4 signal.log --hidden 50 --steps 1000000 --save-every 1000000 \
  --report-every 1000000 --resume >signal.out 2>&1 &
job=$!
until [[ -s signal.log ]]; do
  kill -0 "$job" 2>/dev/null || { cat signal.out; fail "the training ended"; }
  sleep 0.01
done
mapfile -t pids < <(processes_of "$job")
kill -USR1 "${pids[1]}" # mpirun, which forwards it to all ranks
code=0
wait "$job" || code=$?
# The message names the first rank that got the signal: any of the four.
stopped "$code" signal.out "SIGUSR1 on rank [0-3]"

echo "-- stopped before its time limit, on 2 ranks"
code=0
BELAY_JOB_END_TIME=$(($(date +%s) + 30)) train 2 limit.log --hidden 50 \
  --steps 1000000 --mtbf 1 --report-every 1000000 --resume \
  --stop-at-time-limit --margin 27 >limit.out 2>&1 || code=$?
stopped "$code" limit.out "the time limit in [0-9]* s"
grep -q "note: save every .* s: Daly's optimum" limit.out || fail "no advice"
last=$(tail -n 1 limit.log | cut -d ' ' -f 1)
end=$((last + 5))
train 3 after.log --hidden 50 --steps "$end" --mtbf 1000000 --resume
[[ -e $(printf 'run/step_%08d' "$end") ]] || fail "the end was not saved"

train 1 whole.log --hidden 50 --steps "$end" --save-every 0
# Steps that the killed job did after its last save were repeated and must give
# the same lines.
awk -v end="$end" '$1 <= end' killed.log |
  cat - resumed.log signal.log limit.log after.log | sort -u | sort -n >pieces.log
expect_same pieces.log whole.log "$end"
echo "-- the same losses to the last bit, $end steps"
