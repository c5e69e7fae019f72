#!/usr/bin/env bash
# Eight ranks on four nodes write random pieces of many files through four
# aggregators, one on each node, with ROMIO and with OMPIO. No byte is wrong.
# BELAY_STRESS_FILES sets the number of files, 40 otherwise.
# limit: 3600
source "$(dirname "$0")/../lib.sh"

stress=$build/mpi_tests/mpi_mpi_io_stress_test
[[ -x $stress ]] || skip "needs $stress; ./dev cluster-test builds it"
files=${BELAY_STRESS_FILES:-40}
for io in romio321 ompio; do
  echo "-- $io"
  OMPI_MCA_io=$io OMPI_MCA_io_ompio_num_aggregators=4 \
    "$here/mpirun-hosts" n1:2,n2:2,n3:2,n4:2 -x "BELAY_STRESS_DIR=$work" \
    -x "BELAY_STRESS_FILES=$files" "$stress" | tee "$io.out"
  expect_line "$io.out" "^$files files, 0 bad\$"
done
