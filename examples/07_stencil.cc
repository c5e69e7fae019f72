// Heat on a plate: a stencil with ghost cells, on any number of ranks.
//
//   mpirun -n 4 ./07_stencil run 200          # saves every 50 steps
//   mpirun -n 3 ./07_stencil run 400          # continues from step 200
//
// Each rank owns some rows of the plate, with one row of ghost cells above and
// below and one column at each side. A checkpoint has the owned cells, as one
// array for all ranks. A restore also fills the ghost cells, so no exchange is
// needed before the first step. The field is the same to the last bit, however
// often the run was stopped and on however many ranks it continued.
//
// With a third argument, the job kills itself in that step, without a message.

#include <mpi.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "belay/check.h"
#include "belay/run.h"

namespace {

constexpr int64_t kRows = 96;
constexpr int64_t kColumns = 64;
constexpr int64_t kWidth = kColumns + 2;  // with the ghost cells
constexpr int64_t kSaveEvery = 50;

// The part of the plate that one rank holds.
struct Plate {
  belay::Box owned;         // of the whole plate
  std::vector<double> now;  // rows of kWidth, one more above and below
  int64_t step = 0;

  int64_t rows() const { return owned.shape[0]; }
  double& At(int64_t row, int64_t column) {
    return now[static_cast<size_t>((row + 1) * kWidth + column + 1)];
  }
};

Plate Cut(int rank, int size) {
  const int64_t begin = kRows * rank / size, end = kRows * (rank + 1) / size;
  Plate plate{.owned = {.offset = {begin, 0}, .shape = {end - begin, kColumns}},
              .now = {}};
  plate.now.resize(static_cast<size_t>((plate.rows() + 2) * kWidth));
  return plate;
}

// Starts with a hot spot away from the edges, which stay cold.
void Start(Plate& plate) {
  for (int64_t i = 0; i < plate.rows(); ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      const int64_t row = plate.owned.offset[0] + i;
      plate.At(i, j) = row / 8 == 3 && j / 8 == 5 ? 1000.0 : 0.0;
    }
  }
}

// Sends the first and the last row to the ranks above and below.
void Exchange(Plate& plate, int rank, int size) {
  const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  const int64_t last = plate.rows() - 1;
  MPI_Sendrecv(&plate.At(0, 0), kColumns, MPI_DOUBLE, above, 0,
               &plate.At(last + 1, 0), kColumns, MPI_DOUBLE, below, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&plate.At(last, 0), kColumns, MPI_DOUBLE, below, 1,
               &plate.At(-1, 0), kColumns, MPI_DOUBLE, above, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

// Does one step, with the current ghost cells.
void Step(Plate& plate) {
  std::vector<double> next = plate.now;
  for (int64_t i = 0; i < plate.rows(); ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      const double around = plate.At(i - 1, j) + plate.At(i + 1, j) +
                            plate.At(i, j - 1) + plate.At(i, j + 1);
      next[static_cast<size_t>((i + 1) * kWidth + j + 1)] =
          plate.At(i, j) + 0.2 * (around - 4 * plate.At(i, j));
    }
  }
  plate.now = std::move(next);
  ++plate.step;
}

// Returns a number that changes if any bit of the field differs.
uint64_t Digest(Plate& plate) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < plate.rows(); ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      uint64_t bits = 0;
      std::memcpy(&bits, &plate.At(i, j), sizeof(bits));
      const int64_t place = (plate.owned.offset[0] + i) * kColumns + j;
      sum += bits * (2 * static_cast<uint64_t>(place) + 1);
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

void Simulate(const std::string& dir, int64_t steps, int64_t die_at) {
  belay::Run run = belay::Check(
      belay::Run::Open(MPI_COMM_WORLD, dir,
                       {.save_policy = {.save_interval_steps = kSaveEvery,
                                        .save_first_step = false}}));
  const int rank = run.comm().rank(), size = run.comm().size();
  Plate plate = Cut(rank, size);
  run.state().AddPiece("temperature", {kRows, kColumns}, plate.owned,
                       {plate.now, {.before = {1, 1}, .fill_ghosts = true}});
  run.state().Add("step", plate.step);

  if (belay::Check(run.Restore()).step) {
    if (rank == 0) {
      std::printf("going on from step %lld on %d ranks\n",
                  static_cast<long long>(plate.step), size);
    }
  } else {
    Start(plate);
    Exchange(plate, rank, size);
  }

  while (plate.step < steps) {
    if (plate.step == die_at && rank == size - 1) std::raise(SIGKILL);
    Step(plate);
    Exchange(plate, rank, size);
    belay::Check(run.Step(plate.step));
  }
  const uint64_t digest = Digest(plate);
  if (rank == 0) {
    std::printf("step %lld: field %016llx\n",
                static_cast<long long>(plate.step),
                static_cast<unsigned long long>(digest));
  }
  belay::Check(run.Close());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) {
    std::fprintf(stderr, "usage: 07_stencil DIR STEPS [DIE_AT]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Simulate(argv[1], std::atoll(argv[2]), argc > 3 ? std::atoll(argv[3]) : -1);
  MPI_Finalize();
  return 0;
}
