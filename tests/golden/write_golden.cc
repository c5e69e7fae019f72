// Writes the golden checkpoints of the present format; see README.md.
//
//   mpirun -n 2 ./write_golden DIRECTORY

#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "belay/save_restore.h"
#include "values.h"

namespace {

belay::Status Write(const std::string& dir) {
  belay::StatusOr<belay::Comm> comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return comm.status();
  if (comm->size() != 2) return absl::InvalidArgumentError("needs 2 ranks");
  const belay::Box box = belay::golden::PieceOfW(comm->rank());
  std::vector<int32_t> piece = belay::golden::ValuesOfW(box);
  belay::golden::Values values;
  belay::State state;
  state.AddPiece("w", {belay::golden::kRows, belay::golden::kColumns}, box,
                 piece.data());
  values.AddTo(state);
  belay::SaveOptions options;
  auto saved =
      belay::Save(*comm, dir, belay::golden::kSharedStep, state, options);
  if (!saved.ok()) return saved.status();
  options.sharding_policy = belay::MaxShardSize(belay::golden::kGroupBytes);
  saved = belay::Save(*comm, dir, belay::golden::kGroupsStep, state, options);
  if (!saved.ok()) return saved.status();
  options.sharding_policy = belay::ShardByTask();
  options.file_layout = belay::FileLayout::kPerTask;
  saved = belay::Save(*comm, dir, belay::golden::kPerTaskStep, state, options);
  if (!saved.ok()) return saved.status();
  return comm->Close();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const belay::Status status =
      argc == 2 ? Write(argv[1])
                : absl::InvalidArgumentError("usage: write_golden DIRECTORY");
  if (rank == 0 && !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
