// Adds to rows of a table that is split into components, saves it, and restores
// it into different components.
//
//   mpirun -n 4 ./04_sharded_variable run

#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "belay/save_restore.h"
#include "belay/variable/sharded_variable_ops.h"
#include "belay/variable/sparse_ops.h"

namespace {

belay::Status SaveAndRestore(const belay::Comm& comm, const std::string& dir) {
  // 1000 rows of 256 bytes, in the smallest number of components of at most 64
  // KiB.
  auto table = belay::CreateShardedVariable(comm, "table", belay::DType::kF32,
                                            {1000, 64}, belay::MaxSize(65536));
  if (!table.ok()) return table.status();
  const std::vector<float> ones(2 * 64, 1.0f);
  belay::Status added = belay::ScatterAdd(  // each rank, for rows on any rank
      comm, *table, belay::Tensor::Of<int64_t>({2}, {500, 0}),
      belay::Tensor::Of<float>({2, 64}, ones));
  if (!added.ok()) return added;
  belay::State state;
  state.AddShardedVariable("table", *table);
  auto saved = belay::Save(comm, dir, /*step=*/1, state, {.overwrite = true});
  if (!saved.ok()) return saved.status();
  auto other = belay::CreateShardedVariable(comm, "table", belay::DType::kF32,
                                            {1000, 64}, belay::FixedShards(3));
  if (!other.ok()) return other.status();
  belay::State wanted;
  wanted.AddShardedVariable("table", *other);
  auto restored = belay::Restore(comm, dir, belay::kLatestStep, wanted);
  if (!restored.ok()) return restored.status();
  auto column = belay::Read(comm, *other, {belay::Slice{{}, {}, 500}, 63});
  if (!column.ok()) return column.status();  // other[::500, 63] on every rank
  for (float sum : column->values<float>()) {
    if (sum != comm.size()) return absl::DataLossError("not what was saved");
  }
  if (comm.rank() > 0) return absl::OkStatus();
  std::printf("saved %s\nrestored %s\n", SpecText(table->Spec()).c_str(),
              SpecText(other->Spec()).c_str());
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  const auto status = comm.ok()
                          ? SaveAndRestore(*comm, argc > 1 ? argv[1] : "run")
                          : comm.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
