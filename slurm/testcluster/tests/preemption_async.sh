#!/usr/bin/env bash
# As preemption.sh, with trainings that save every step in the background: one is
# always being written when Slurm wants the nodes. They wait for it, save the
# newest step as well, and go on from that.
source "$(dirname "$0")/../lib.sh"

echo 1 >every
# shellcheck disable=SC2016  # expanded when the job starts, and starts again
saving='exec "$@" --save-every "$(<"$work/every")"'
# submit_saving NAME LAUNCHER
submit_saving() {
  # shellcheck disable=SC2046  # several words
  LAUNCH=$2 submit_file "$1" -N 2 --ntasks-per-node=1 --mincpus=1 -p low \
    --exclusive "$scripts/train.sbatch" \
    bash -c "$saving" saving $(training "$1")
}

mpirun=$(submit_saving async_mpirun mpirun)
srun=$(submit_saving async_srun "$srun_pmix")
names=(async_mpirun async_srun)
wait_for_step 20 "${names[@]}"
urgent=$(submit urgent -p high -N 4 --exclusive <<<'sleep 1')
wait_for_end "$urgent" 60
echo 50 >every
for job in "$mpirun" "$srun"; do start_again_now "$job" 1 60; done
for job in "$mpirun" "$srun"; do wait_for_end "$job" 90; done
for name in "${names[@]}"; do
  expect_line "$name.out" 'batch script: exit code 85'
  last=$(sed -n 's/.*stopped at step \([0-9]*\) because of SIG.*/\1/p' "$name.out")
  [[ -n $last ]] || fail "$name was not told to stop"
  expect_line "$name.out" "resumed from $(printf 'step_%08d' "$last"):"
done
expect_whole "${names[@]}"
