// Saves on one number of ranks and loads on another.
//
//   mpirun -n 4 ./03_other_rank_count run save
//   mpirun -n 3 ./03_other_rank_count run load
//
// The saving job partitions the array by rows, the loading job by columns.
// Neither knows about the other.

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "belay/save_restore.h"

namespace {

const belay::Shape kShape = {1000, 300};
constexpr int64_t kStep = 7;

int64_t Expected(int64_t row, int64_t column) { return row * 1000 + column; }

// The data of one rank in either job.
struct Job {
  belay::Box box;
  std::vector<int64_t> table;  // the elements of box, dense and row-major
  double learning_rate = 0;    // equal on all ranks
  std::string note;            // equal on all ranks
  belay::State state;          // borrows the members above
};

// Fills in `job` with this rank's piece of the table when array axis `axis` is
// partitioned over all ranks.
belay::Status Describe(const belay::Comm& comm, int axis, Job& job) {
  const auto mesh = belay::Mesh::Create({{"ranks", comm.size()}});
  if (!mesh.ok()) return mesh.status();
  belay::LayoutAxes axes(2);
  axes[axis] = {"ranks"};
  const auto layout = belay::Layout::Create(*mesh, axes);
  if (!layout.ok()) return layout.status();
  const auto box = layout->LocalBox(kShape, comm.rank());
  if (!box.ok()) return box.status();

  job.box = *box;
  job.table.resize(belay::NumElements(box->shape));
  job.state.AddLaidOut("table", *layout, kShape, comm.rank(), job.table);
  job.state.Add("learning_rate", job.learning_rate);
  job.state.Add("note", job.note);
  return job.state.status();
}

// Calls visit(value, expected) for every element that this rank holds.
template <typename Visit>
void ForEachElement(Job& job, Visit visit) {
  const int64_t columns = job.box.shape[1];
  for (int64_t i = 0; i < static_cast<int64_t>(job.table.size()); ++i) {
    visit(job.table[i], Expected(job.box.offset[0] + i / columns,
                                 job.box.offset[1] + i % columns));
  }
}

belay::Status SaveJob(const belay::Comm& comm, const std::string& dir) {
  Job job;
  belay::Status status = Describe(comm, /*axis=*/0, job);
  if (!status.ok()) return status;
  ForEachElement(job, [](int64_t& value, int64_t want) { value = want; });
  job.learning_rate = 0.125;
  job.note = "saved by rows";
  const auto saved =
      belay::Save(comm, dir, kStep, job.state, {.overwrite = true});
  if (!saved.ok()) return saved.status();
  if (comm.rank() == 0) {
    std::printf("saved %s, cut by rows over %d ranks: %lld bytes\n",
                belay::ShapeText(kShape).c_str(), comm.size(),
                static_cast<long long>(saved->counters.bytes));
  }
  return absl::OkStatus();
}

belay::Status LoadJob(const belay::Comm& comm, const std::string& dir) {
  Job job;
  belay::Status status = Describe(comm, /*axis=*/1, job);
  if (!status.ok()) return status;
  const auto restored = belay::Restore(comm, dir, kStep, job.state);
  if (!restored.ok()) return restored.status();

  long long wrong = job.learning_rate != 0.125 || job.note != "saved by rows";
  ForEachElement(job, [&wrong](int64_t value, int64_t want) {
    if (value != want) ++wrong;
  });
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG_LONG, MPI_SUM,
                MPI_COMM_WORLD);
  if (wrong != 0) {
    return absl::DataLossError("restore: " + std::to_string(wrong) +
                               " values differ from what was saved");
  }
  if (comm.rank() == 0) {
    std::printf(
        "loaded %s, cut by columns over %d ranks: every value is "
        "right\n",
        belay::ShapeText(kShape).c_str(), comm.size());
  }
  return absl::OkStatus();
}

belay::Status Run(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[2] : "";
  if (mode != "save" && mode != "load") {
    return absl::InvalidArgumentError(
        "usage: 03_other_rank_count DIR save|load");
  }
  auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return comm.status();
  const belay::Status status =
      mode == "save" ? SaveJob(*comm, argv[1]) : LoadJob(*comm, argv[1]);
  if (!status.ok()) return status;
  return comm->Close();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const belay::Status status = Run(argc, argv);
  if (rank == 0 && !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
