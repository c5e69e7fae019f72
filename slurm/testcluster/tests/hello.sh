#!/usr/bin/env bash
# Four ranks on two nodes save and restore on the network file system, started
# by srun and by mpirun: they run where they should, and every byte is right.
source "$(dirname "$0")/../lib.sh"

example=$build/examples/01_save_one_array

# expect_on_two_nodes LAUNCHER...: two ranks each on n1 and n2.
expect_on_two_nodes() {
  [[ $("$@" hostname | sort | uniq -c | xargs) == "2 n1 2 n2" ]] ||
    fail "not two ranks each on n1 and n2: $*"
}

by_srun=(srun --mpi=pmix -w "n1,n2" -N 2 --ntasks-per-node=2)
expect_on_two_nodes "${by_srun[@]}"
"${by_srun[@]}" "$example" "$work/by_srun"
"$belay" verify "$work/by_srun/step_00000001"

by_mpirun=("$here/mpirun-hosts" "n1:2,n2:2")
expect_on_two_nodes "${by_mpirun[@]}"
"${by_mpirun[@]}" "$example" "$work/by_mpirun"
"$belay" verify "$work/by_mpirun/step_00000001"
