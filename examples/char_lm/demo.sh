#!/usr/bin/env bash
# Kills a training job in the middle of a save, continues it on other numbers of
# ranks, and compares the losses with those of a job that was never stopped.
#
# usage: demo.sh BUILD_DIR
#
# Takes about a minute on two cores. The files stay in BUILD_DIR/demo. The exit
# code is 0 if everything is as expected.
set -euo pipefail
export LC_ALL=C

[[ $# -eq 1 && -x $1/examples/char_lm ]] || {
  echo "usage: $0 BUILD_DIR (with examples/char_lm built in it)" >&2
  exit 2
}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/kill_job.sh"
build=$(cd "$1" && pwd)
trainer=$build/examples/char_lm
belay=$build/tools/belay

steps=600
save_every=75
mpirun_flags=(--quiet --allow-run-as-root --oversubscribe
  --mca mpi_yield_when_idle 1 --mca btl "self,vader" --mca io romio321
  --mca btl_vader_single_copy_mechanism none)

rm -rf "$build/demo"
mkdir "$build/demo"
cd "$build/demo"

bold='' plain=''
[[ -t 1 ]] && bold=$'\e[1m' plain=$'\e[0m'
act=0
act() { act=$((act + 1)); printf '\n%s%d. %s%s\n' "$bold" "$act" "$1" "$plain"; }
say() { printf '   %s\n' "$@"; }
indent() { sed -u 's/^/   | /'; }
fail() { printf 'demo: %s\n' "$1" >&2; exit 1; }

# train RANKS FLAGS...: the same model, text and seed every time.
train() {
  local ranks=$1
  shift
  mpirun "${mpirun_flags[@]}" -n "$ranks" "$trainer" \
    --hidden 2048 --batch 16 --report-every 50 --dir run --async \
    --save-every "$save_every" "$@"
}

step_name() { printf 'run/step_%08d' "$1"; }

# crash_in_save STEP: trains on 4 ranks and kills the job while it saves STEP.
# Fails if the save was complete before the kill.
crash_in_save() {
  local step job
  step=$(step_name "$1")
  touch broken.log
  train 4 --steps "$steps" --resume --loss-log broken.log > >(indent) &
  job=$!
  until grep -q "^$(($1 - 3)) " broken.log; do
    kill -0 "$job" 2>/dev/null || fail "the training ended by itself"
    sleep 0.01
  done
  # A save may take a few hundredths of a second: watch without a pause.
  until [[ -e $step ]] || compgen -G "$step.inprogress/data_*" >/dev/null; do
    kill -0 "$job" 2>/dev/null || fail "the training ended by itself"
  done
  kill_job "$job"
  sleep 0.2 # wait for the last lines of output
  [[ ! -e $step && -e $step.inprogress ]]
}

# finish RANKS LAST_STEP FROM_STEP FLAGS...: resumes, and checks from which
# step.
finish() {
  local ranks=$1 last=$2 from
  from=$(basename "$(step_name "$3")")
  shift 3
  train "$ranks" --steps "$last" --resume "$@" | tee finish.out | indent
  grep -q "resumed from $from:" finish.out || fail "did not resume from $from"
}

act "A job on 4 ranks trains a language model and saves every $save_every steps"
say "The embedding table is cut by rows, the hidden layer by columns; the Adam" \
  "moments, the place in the text and the random numbers are saved as well." \
  "It trains on while a step is written." \
  "While it saves, somebody will pull the plug (kill -9 of every process)." ""
for crash in 225 300 375 none; do
  [[ $crash != none ]] || fail "no save could be killed in the middle"
  crash_in_save "$crash" && break
  say "(step $crash was saved before the kill came: the next one, then)"
done
intact=$((crash - save_every))

act "The job is dead, and the save of step $crash is a ruin"
say "A save appears under its name only when it is complete:" ""
(cd run && ls -d step_*) | indent
echo
say "Half a checkpoint, which no reader looks at:" ""
(cd "$(step_name "$crash").inprogress" && ls -sh) | indent
if [[ -x $belay ]]; then
  echo
  say "The one before is intact:" ""
  "$belay" verify "$(step_name "$intact")" | indent
fi

act "A new job goes on from step $intact, on 3 ranks, and later on 6"
say "Every rank reads its new piece, wherever it lies in the file." ""
finish 3 450 "$intact" --loss-log three.log
echo
finish 6 "$steps" 450 --loss-log six.log --sample 160
[[ -z $(compgen -G 'run/*.inprogress') ]] || fail "the ruin is still there"

act "Was anything lost? The same training on 2 ranks, never stopped"
say "Lines show the mean loss since the line before; after a restart these are" \
  "fewer steps. What is compared is the loss of each step." ""
train 2 --steps "$steps" --save-every 0 --loss-log whole.log --sample 160 |
  tee whole.out | indent
# Repeated steps must give the same lines; duplicates are then removed.
cat broken.log three.log six.log | sort -u | sort -n >pieces.log
[[ $(wc -l <whole.log) -eq $steps ]] || fail "the log of the whole job is short"
cmp pieces.log whole.log || fail "the losses differ"
cmp <(sed '1,/the model writes/d' finish.out) \
  <(sed '1,/the model writes/d' whole.out) || fail "the models differ"
echo
tail -n 3 whole.log | indent
echo
say "$bold$steps of $steps losses are the same to the last bit.$plain" \
  "4 ranks, killed; then 3; then 6: nothing was lost, nothing was done wrong."

act "A checkpoint is plain HDF5: any tool can read it"
last=$(step_name "$steps")
if [[ -x $belay ]]; then
  say "belay ls $last" ""
  "$belay" ls "$last" | indent
  echo
fi
say "h5dump -H -g /model $last/index.h5" ""
h5dump -H -g /model "$last/index.h5" >h5dump.out || fail "h5dump cannot read the index"
sed -n '1,25p' h5dump.out | indent
echo
say "h5py" ""
python=/usr/bin/python3
[[ -x $python ]] || python=python3
"$python" "$here/read_with_h5py.py" "$last/index.h5" "$steps" | indent
