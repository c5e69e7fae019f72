// Partitions an array over a mesh of ranks, saves it, and reads it back in
// another partition.
//
//   mpirun -n 8 ./02_mesh_and_layout run
//
// The mesh has three axes. The array is partitioned along two of them; ranks
// that differ only in the third hold replicas, of which belay writes one.

#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "belay/save_restore.h"

namespace {

// No mesh divides 10 rows and 7 columns evenly: uneven pieces are fine.
const belay::Shape kShape = {10, 7};

// Returns the expected element at row r and column c.
double Expected(int64_t r, int64_t c) { return 100.0 * r + c; }

// Returns the elements of `box`, dense and row-major.
std::vector<double> ValuesOf(const belay::Box& box) {
  std::vector<double> values;
  for (int64_t r = 0; r < box.shape[0]; ++r) {
    for (int64_t c = 0; c < box.shape[1]; ++c) {
      values.push_back(Expected(box.offset[0] + r, box.offset[1] + c));
    }
  }
  return values;
}

belay::StatusOr<belay::Mesh> MakeMesh(int num_ranks) {
  int dims[3] = {0, 0, 0};
  MPI_Dims_create(num_ranks, 3, dims);
  return belay::Mesh::Create({{"x", dims[0]}, {"y", dims[1]}, {"z", dims[2]}});
}

// LocalBox is pure arithmetic: any rank can compute the piece of any other.
void PrintLayout(const belay::Layout& layout) {
  std::printf("layout %s of an array %s\n", layout.ToString().c_str(),
              belay::ShapeText(kShape).c_str());
  for (int rank = 0; rank < layout.mesh().num_ranks(); ++rank) {
    const auto box = layout.LocalBox(kShape, rank);
    if (!box.ok()) continue;
    std::printf("  rank %d holds %s (offset,length per axis), copy %lld\n",
                rank, belay::BoxText(*box).c_str(),
                static_cast<long long>(layout.Replica(rank)));
  }
}

belay::Status SaveLaidOut(const belay::Comm& comm, const std::string& dir,
                          const belay::Layout& layout) {
  const auto box = layout.LocalBox(kShape, comm.rank());
  if (!box.ok()) return box.status();
  std::vector<double> values = ValuesOf(*box);
  belay::State state;
  state.AddLaidOut("table", layout, kShape, comm.rank(), values);
  return belay::Save(comm, dir, /*step=*/1, state, {.overwrite = true})
      .status();
}

belay::Status RestoreLaidOut(const belay::Comm& comm, const std::string& dir,
                             const belay::Layout& layout) {
  const auto box = layout.LocalBox(kShape, comm.rank());
  if (!box.ok()) return box.status();
  std::vector<double> values(belay::NumElements(box->shape));
  belay::State state;
  state.AddLaidOut("table", layout, kShape, comm.rank(), values);
  const auto restored = belay::Restore(comm, dir, belay::kLatestStep, state);
  if (!restored.ok()) return restored.status();

  int same = values == ValuesOf(*box);
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  if (!same) return absl::DataLossError("restore: other values than saved");
  return absl::OkStatus();
}

belay::Status Run(const std::string& dir) {
  auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return comm.status();
  const auto mesh = MakeMesh(comm->size());
  if (!mesh.ok()) return mesh.status();

  // Rows over mesh axis x, columns over y, replicas along z.
  const auto grid = belay::Layout::Create(*mesh, {{"x"}, {"y"}});
  if (!grid.ok()) return grid.status();
  if (comm->rank() == 0) PrintLayout(*grid);
  belay::Status status = SaveLaidOut(*comm, dir, *grid);
  if (!status.ok()) return status;

  // A restore may use any layout: read rows over all ranks, without replicas.
  const auto rows = belay::Layout::Create(*mesh, {{"x", "y", "z"}, {}});
  if (!rows.ok()) return rows.status();
  status = RestoreLaidOut(*comm, dir, *rows);
  if (!status.ok()) return status;
  if (comm->rank() == 0) {
    std::printf("saved as %s and restored as %s: every value is right\n",
                grid->ToString().c_str(), rows->ToString().c_str());
  }
  return comm->Close();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const belay::Status status =
      argc == 2 ? Run(argv[1])
                : absl::InvalidArgumentError("usage: 02_mesh_and_layout DIR");
  if (rank == 0 && !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
