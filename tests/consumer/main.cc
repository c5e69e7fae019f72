// Saves one array that is cut over the ranks, and restores it cut otherwise.

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "belay/save_restore.h"
#include "belay/version.h"

namespace {

constexpr int64_t kRows = 7;
constexpr int64_t kColumns = 3;

// Returns the rank's share of the rows, or of the columns.
belay::Box Piece(int axis, int rank, int size) {
  const int64_t length = axis == 0 ? kRows : kColumns;
  const int64_t begin = length * rank / size;
  belay::Box box{.offset = {0, 0}, .shape = {kRows, kColumns}};
  box.offset[axis] = begin;
  box.shape[axis] = length * (rank + 1) / size - begin;
  return box;
}

// Returns the elements of a piece; each element is its own position.
std::vector<int64_t> Values(const belay::Box& box) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < box.shape[0]; ++i) {
    for (int64_t j = 0; j < box.shape[1]; ++j) {
      values.push_back((box.offset[0] + i) * kColumns + box.offset[1] + j);
    }
  }
  return values;
}

belay::Status SaveAndRestore(const std::string& dir) {
  auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return comm.status();
  const belay::Box rows = Piece(0, comm->rank(), comm->size());
  std::vector<int64_t> saved = Values(rows);
  belay::State out;
  out.AddPiece("grid", {kRows, kColumns}, rows, saved);
  auto save = belay::Save(*comm, dir, 7, out);
  if (!save.ok()) return save.status();

  const belay::Box columns = Piece(1, comm->rank(), comm->size());
  std::vector<int64_t> restored(belay::NumElements(columns.shape), -1);
  belay::State in;
  in.AddPiece("grid", {kRows, kColumns}, columns, restored);
  auto restore = belay::Restore(*comm, dir, belay::kLatestStep, in);
  if (!restore.ok()) return restore.status();
  if (restored != Values(columns)) {
    return absl::DataLossError("the restored columns differ");
  }
  return comm->Close();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const belay::Status status = SaveAndRestore(argc > 1 ? argv[1] : "run");
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (!status.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
  } else if (rank == 0) {
    std::printf("saved and restored with belay %s\n", BELAY_VERSION);
  }
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
