// Saves every step while the next one is computed, and continues after a kill.
//
//   mpirun -n 4 ./11_background_saves run 20   # total number of steps
//   mpirun -n 3 ./11_background_saves run 40   # continues from step 20
//
// A table is partitioned by rows over the ranks. Each step changes every number
// of the table as soon as Save has returned; the checkpoint has the values from
// before. At the end each rank recomputes its rows from the start, without a
// checkpoint, and compares them.
//
// With a third argument, the job kills itself in that step, without a message.

#include <mpi.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "belay/async_saver.h"
#include "belay/check.h"
#include "belay/save_restore.h"

namespace {

constexpr int64_t kRows = 1200;
constexpr int64_t kColumns = 257;

// The rows of one rank.
struct Rows {
  belay::Box box;
  std::vector<double> values;
  int64_t step = 0;
};

Rows MakeRows(int rank, int size) {
  const int64_t first = kRows * rank / size;
  const int64_t end = kRows * (rank + 1) / size;
  Rows rows{.box = {.offset = {first, 0}, .shape = {end - first, kColumns}}};
  rows.values.resize(static_cast<size_t>((end - first) * kColumns));
  return rows;
}

void Advance(Rows& rows) {
  ++rows.step;
  const int64_t first = rows.box.offset[0] * kColumns;
  for (size_t i = 0; i < rows.values.size(); ++i) {
    const int64_t place = first + static_cast<int64_t>(i);
    rows.values[i] =
        0.5 * rows.values[i] + static_cast<double>(place * rows.step % 1009);
  }
}

belay::Status Run(const std::string& dir, int64_t steps, int64_t kill_at) {
  belay::StatusOr<belay::Comm> comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return comm.status();
  Rows rows = MakeRows(comm->rank(), comm->size());
  belay::State state;
  state.AddPiece("table", {kRows, kColumns}, rows.box, rows.values);
  state.Add("step", rows.step);

  auto restored = belay::RestoreLatest(*comm, dir, state);
  if (!restored.ok()) return restored.status();
  const int64_t begun_at = rows.step;

  belay::AsyncSaver saver(*comm);
  while (rows.step < steps) {
    Advance(rows);
    if (rows.step == kill_at) raise(SIGKILL);
    // Waits for the previous step, copies the values, and returns.
    auto pending = saver.Save(dir, rows.step, state);
    if (!pending.ok()) return pending.status();
  }
  if (belay::Status status = saver.Close(); !status.ok()) return status;

  Rows again = MakeRows(comm->rank(), comm->size());
  while (again.step < rows.step) Advance(again);
  int same = rows.values == again.values;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  if (!same) return absl::DataLossError("the table is another one");
  if (comm->rank() == 0) {
    std::printf("steps %lld to %lld on %d ranks: the table is right\n",
                static_cast<long long>(begun_at + 1),
                static_cast<long long>(rows.step), comm->size());
  }
  return comm->Close();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  belay::Check(argc == 3 || argc == 4
                   ? Run(argv[1], std::atoll(argv[2]),
                         argc == 4 ? std::atoll(argv[3]) : -1)
                   : absl::InvalidArgumentError(
                         "usage: 11_background_saves DIR STEPS [KILL_AT]"));
  MPI_Finalize();
  return 0;
}
