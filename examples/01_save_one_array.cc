// Saves one array that is partitioned by rows over the ranks, and reads it
// back.
//
//   mpirun -n 4 ./01_save_one_array run
//
// This shows the whole library: describe the state once, Save, Restore.

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "belay/check.h"
#include "belay/save_restore.h"

namespace {

// Every belay call that communicates returns the same status on all ranks, so
// after an error all ranks return early together and none is left waiting.
belay::Status SaveAndRestore(const std::string& dir) {
  belay::StatusOr<belay::Comm> comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return comm.status();

  // The array has two rows per rank; this rank holds the rows of `box`.
  const belay::Shape shape = {2 * comm->size(), 8};
  const belay::Box box = {.offset = {2 * comm->rank(), 0}, .shape = {2, 8}};
  std::vector<float> rows(2 * 8);
  std::iota(rows.begin(), rows.end(), 16.0f * comm->rank());

  // The state borrows `rows`: Save reads them and Restore writes them.
  belay::State state;
  state.AddPiece("weights", shape, box, rows);

  auto saved = belay::Save(*comm, dir, /*step=*/1, state, {.overwrite = true});
  if (!saved.ok()) return saved.status();

  const std::vector<float> expected = rows;
  std::fill(rows.begin(), rows.end(), 0.0f);
  auto restored = belay::Restore(*comm, dir, belay::kLatestStep, state);
  if (!restored.ok()) return restored.status();

  int same = rows == expected;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  if (!same) return absl::DataLossError("restore: other values than saved");
  if (comm->rank() == 0) {
    std::printf(
        "saved and restored \"weights\" %s, cut by rows over %d ranks\n",
        belay::ShapeText(shape).c_str(), comm->size());
  }
  return comm->Close();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  // Ends all ranks on an error.
  belay::Check(
      argc == 2 ? SaveAndRestore(argv[1])
                : absl::InvalidArgumentError("usage: 01_save_one_array DIR"));
  MPI_Finalize();
  return 0;
}
