// Conjugate gradients for a sparse system, on any number of ranks.
//
//   mpirun -n 4 ./10_conjugate_gradient run 200   # at most 200 iterations
//   mpirun -n 3 ./10_conjugate_gradient run 2000  # continues from 200
//
// The system describes the heat of a plate whose conductance varies from place
// to place. Each rank has the unknowns of some lines. A manager saves every 50
// iterations, and keeps the newest two steps. A checkpoint has what one
// iteration passes to the next: three vectors and a scalar. Everything else
// follows from the problem, or is computed again in each iteration. After the
// same number of iterations, the solution is the same to the last bit, however
// often the run was stopped and on however many ranks it continued.
//
// With a third argument, the job kills itself in that iteration, without a
// message.

#include <mpi.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "belay/check.h"
#include "belay/checkpoint_manager.h"
#include "belay/comm.h"
#include "belay/state.h"

namespace {

constexpr int64_t kLines = 96;
constexpr int64_t kWidth = 80;  // unknowns of a line
constexpr double kTolerance = 1e-10;

using Values = std::vector<double>;

// The data of one rank.
struct Solver {
  int64_t first = 0, lines = 0;  // of the plate
  // Saved:
  Values x;          // the solution so far
  Values r;          // the residual
  Values p;          // the direction of the next iteration
  double rz = 0;     // r times the preconditioned r
  int64_t step = 0;  // iterations so far
  // Not saved, because they follow from the problem:
  Values diagonal;      // of the matrix: the preconditioner
  double first_rz = 0;  // rz before the first iteration
  // Not saved, because each iteration fills them before it reads them:
  Values ap;            // the matrix times p
  Values above, below;  // lines of p on the neighbors
};

// Returns the conductance, from 1 to 16, from a place to the next one in its
// line, or to the one in the next line. Line -1 and column -1 are the edges of
// the plate.
double Conductance(int64_t line, int64_t column, bool in_line) {
  auto bits = static_cast<uint64_t>((line + 1) * (kWidth + 1) + column + 1);
  bits = (2 * bits + (in_line ? 1 : 0)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>(1 + (bits >> 60));
}

// Returns the sum of a[i] * b[i] over all ranks. It adds up each line first
// (ranks that do not have the line contribute 0) and then the lines in order.
// Unlike a sum of one partial sum per rank, the result is the same to the last
// bit on any number of ranks.
double Dot(const Solver& my, const Values& a, const Values& b) {
  Values lines(kLines);
  for (size_t i = 0; i < a.size(); ++i) {
    lines[static_cast<size_t>(my.first) + i / kWidth] += a[i] * b[i];
  }
  MPI_Allreduce(MPI_IN_PLACE, lines.data(), kLines, MPI_DOUBLE, MPI_SUM,
                MPI_COMM_WORLD);
  return std::accumulate(lines.begin(), lines.end(), 0.0);
}

// Gets the lines of p above and below. Lines outside the plate stay 0.
void Exchange(Solver& my, int rank, int size) {
  const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  const double* const last = my.p.data() + (my.lines - 1) * kWidth;
  MPI_Sendrecv(my.p.data(), kWidth, MPI_DOUBLE, up, 0, my.below.data(), kWidth,
               MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(last, kWidth, MPI_DOUBLE, down, 1, my.above.data(), kWidth,
               MPI_DOUBLE, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Computes ap = the matrix times p.
void Multiply(Solver& my) {
  const auto at = [&](int64_t line, int64_t column) {
    const auto i = static_cast<size_t>(column);
    if (column < 0 || column == kWidth) return 0.0;
    if (line < 0) return my.above[i];
    if (line == my.lines) return my.below[i];
    return my.p[static_cast<size_t>(line * kWidth) + i];
  };
  for (int64_t i = 0; i < my.lines; ++i) {
    const int64_t line = my.first + i;
    for (int64_t j = 0; j < kWidth; ++j) {
      const auto k = static_cast<size_t>(i * kWidth + j);
      my.ap[k] = my.diagonal[k] * my.p[k] -
                 Conductance(line - 1, j, false) * at(i - 1, j) -
                 Conductance(line, j, false) * at(i + 1, j) -
                 Conductance(line, j - 1, true) * at(i, j - 1) -
                 Conductance(line, j, true) * at(i, j + 1);
    }
  }
}

// Returns the preconditioned residual.
Values Precondition(const Solver& my) {
  Values z = my.r;
  for (size_t i = 0; i < z.size(); ++i) z[i] /= my.diagonal[i];
  return z;
}

// Returns the data before the first iteration: x is 0, and each place is
// heated.
Solver Start(int rank, int size) {
  Solver my{.first = kLines * rank / size};
  my.lines = kLines * (rank + 1) / size - my.first;
  const auto count = static_cast<size_t>(my.lines * kWidth);
  my.x.resize(count);
  my.r.assign(count, 1.0);
  my.ap.resize(count);
  my.above.resize(kWidth);
  my.below.resize(kWidth);
  for (int64_t i = my.first; i < my.first + my.lines; ++i) {
    for (int64_t j = 0; j < kWidth; ++j) {
      my.diagonal.push_back(
          Conductance(i - 1, j, false) + Conductance(i, j, false) +
          Conductance(i, j - 1, true) + Conductance(i, j, true));
    }
  }
  my.p = Precondition(my);
  my.rz = my.first_rz = Dot(my, my.r, my.p);
  return my;
}

void Iterate(Solver& my, int rank, int size) {
  Exchange(my, rank, size);
  Multiply(my);
  const double alpha = my.rz / Dot(my, my.p, my.ap);
  for (size_t i = 0; i < my.x.size(); ++i) {
    my.x[i] += alpha * my.p[i];
    my.r[i] -= alpha * my.ap[i];
  }
  const Values z = Precondition(my);
  const double before = my.rz;
  my.rz = Dot(my, my.r, z);
  for (size_t i = 0; i < my.p.size(); ++i) {
    my.p[i] = z[i] + my.rz / before * my.p[i];
  }
  ++my.step;
}

// Returns a number that changes if any bit of the solution differs.
uint64_t Digest(const Solver& my) {
  uint64_t sum = 0;
  auto place = static_cast<uint64_t>(my.first * kWidth);
  for (const double x : my.x) {
    sum += std::bit_cast<uint64_t>(x) * (2 * place++ + 1);
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

void Run(const std::string& dir, int64_t steps, int64_t die_at) {
  belay::StatusOr<belay::Comm> comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  belay::Check(comm.status());
  const int rank = comm->rank(), size = comm->size();
  Solver my = Start(rank, size);

  const belay::Shape shape = {kLines, kWidth};
  const belay::Box box = {.offset = {my.first, 0}, .shape = {my.lines, kWidth}};
  belay::State state;
  state.AddPiece("x", shape, box, my.x);
  state.AddPiece("r", shape, box, my.r);
  state.AddPiece("p", shape, box, my.p);
  state.Add("rz", my.rz);
  state.Add("step", my.step);

  auto manager = belay::Check(belay::CheckpointManager::Create(
      *comm, state, dir,
      {.save_policy = {.save_interval_steps = 50, .save_first_step = false},
       .retention = {.max_to_keep = 2}}));
  const auto restored = belay::Check(manager.RestoreOrInitialize());
  if (restored.step && rank == 0) {
    std::printf("going on from step %lld on %d ranks\n",
                static_cast<long long>(my.step), size);
  }

  while (my.step < steps && my.rz > kTolerance * kTolerance * my.first_rz) {
    if (my.step == die_at && rank == size - 1) std::raise(SIGKILL);
    Iterate(my, rank, size);
    belay::Check(manager.Save(my.step));  // if the interval requires it
  }
  // The interval may have skipped the last iteration.
  if (manager.LatestStep() != my.step) {
    belay::Check(manager.Save(my.step, {.force = true}));
  }
  const uint64_t digest = Digest(my);
  if (rank == 0) {
    std::printf("step %lld: residual %.2e, solution %016llx\n",
                static_cast<long long>(my.step), std::sqrt(my.rz / my.first_rz),
                static_cast<unsigned long long>(digest));
  }
  belay::Check(comm->Close());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) {
    std::fprintf(stderr, "usage: 10_conjugate_gradient DIR STEPS [DIE_AT]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Run(argv[1], std::atoll(argv[2]), argc > 3 ? std::atoll(argv[3]) : -1);
  MPI_Finalize();
  return 0;
}
