// Particles in a box, which move from rank to rank, on any number of ranks.
//
//   mpirun -n 4 ./08_particles run 200         # saves every 50 steps
//   mpirun -n 3 ./08_particles run 400         # continues from step 200
//
// Each rank owns the particles of a slab of the box: their number differs
// between ranks and changes in each step. The checkpoint has one array for each
// quantity, with the particles of all ranks one after another. If the number of
// ranks is unchanged, each rank gets its own particles back. Otherwise each
// gets an even part of all, and then sends the particles to the ranks that own
// their slabs.
//
// With a third argument, the job kills itself in that step, without a message.

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "belay/check.h"
#include "belay/save_restore.h"

namespace {

using Vector = std::array<double, 3>;

constexpr int64_t kParticles = 20000;
constexpr int64_t kSaveEvery = 50;
constexpr double kTime = 0.01;  // of a step

// The particles of one rank. All quantities of a particle have the same index.
struct Particles {
  std::vector<int64_t> id;
  std::vector<Vector> position;  // each coordinate from 0 to before 1
  std::vector<Vector> velocity;
  int64_t step = 0;
};

// Returns the rank whose slab contains a position.
int OwnerOf(const Vector& position, int size) {
  return std::min(static_cast<int>(position[0] * size), size - 1);
}

// Returns a pseudorandom number from 0 to 1.
double Noise(int64_t id, int which) {
  uint64_t bits = static_cast<uint64_t>(id) * 6 + static_cast<uint64_t>(which);
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-53;
}

void Start(int rank, int size, Particles& mine) {
  for (int64_t id = 0; id < kParticles; ++id) {
    const Vector position = {Noise(id, 0), Noise(id, 1), Noise(id, 2)};
    if (OwnerOf(position, size) != rank) continue;
    mine.id.push_back(id);
    mine.position.push_back(position);
    mine.velocity.push_back(
        {Noise(id, 3) - 0.5, Noise(id, 4) - 0.5, Noise(id, 5) - 0.5});
  }
}

// Moves all particles; those that leave the box reenter on the other side.
void Step(Particles& mine) {
  for (size_t i = 0; i < mine.id.size(); ++i) {
    for (size_t axis = 0; axis < 3; ++axis) {
      double& x = mine.position[i][axis];
      x += kTime * mine.velocity[i][axis];
      x -= std::floor(x);
      if (x >= 1) x = 0;
    }
  }
  ++mine.step;
}

// A particle, packed for a message.
struct Packed {
  int64_t id;
  Vector position;
  Vector velocity;
};

// Sends particles that have left the slab to the ranks that own their slabs.
void Migrate(int rank, int size, Particles& mine) {
  std::vector<std::vector<Packed>> to(static_cast<size_t>(size));
  Particles stay{.step = mine.step};
  for (size_t i = 0; i < mine.id.size(); ++i) {
    const int owner = OwnerOf(mine.position[i], size);
    if (owner != rank) {
      to[static_cast<size_t>(owner)].push_back(
          {mine.id[i], mine.position[i], mine.velocity[i]});
      continue;
    }
    stay.id.push_back(mine.id[i]);
    stay.position.push_back(mine.position[i]);
    stay.velocity.push_back(mine.velocity[i]);
  }
  std::vector<int> counts(static_cast<size_t>(size)), starts = counts;
  std::vector<int> from_counts = counts, from_starts = counts;
  std::vector<Packed> sent, received;
  for (size_t r = 0; r < to.size(); ++r) {
    counts[r] = static_cast<int>(to[r].size() * sizeof(Packed));
    starts[r] = static_cast<int>(sent.size() * sizeof(Packed));
    sent.insert(sent.end(), to[r].begin(), to[r].end());
  }
  MPI_Alltoall(counts.data(), 1, MPI_INT, from_counts.data(), 1, MPI_INT,
               MPI_COMM_WORLD);
  int bytes = 0;
  for (size_t r = 0; r < to.size(); ++r) {
    from_starts[r] = bytes;
    bytes += from_counts[r];
  }
  received.resize(static_cast<size_t>(bytes) / sizeof(Packed));
  MPI_Alltoallv(sent.data(), counts.data(), starts.data(), MPI_BYTE,
                received.data(), from_counts.data(), from_starts.data(),
                MPI_BYTE, MPI_COMM_WORLD);
  for (const Packed& one : received) {
    stay.id.push_back(one.id);
    stay.position.push_back(one.position);
    stay.velocity.push_back(one.velocity);
  }
  // Assign in place: the State borrows these vectors.
  mine.id = std::move(stay.id);
  mine.position = std::move(stay.position);
  mine.velocity = std::move(stay.velocity);
}

// Returns a number that changes if any bit of any particle differs, whatever
// their order.
uint64_t Digest(const Particles& mine) {
  uint64_t sum = 0;
  for (size_t i = 0; i < mine.id.size(); ++i) {
    uint64_t of_one = static_cast<uint64_t>(mine.id[i]);
    for (const Vector* vector : {&mine.position[i], &mine.velocity[i]}) {
      for (const double x : *vector) {
        uint64_t bits = 0;
        std::memcpy(&bits, &x, sizeof(bits));
        of_one = of_one * 0x9e3779b97f4a7c15 + bits;
      }
    }
    sum += of_one ^ (of_one >> 29);
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

void Run(const std::string& dir, int64_t steps, int64_t die_at) {
  belay::StatusOr<belay::Comm> comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  belay::Check(comm.status());
  const int rank = comm->rank(), size = comm->size();
  Particles mine;

  // Rows at the same index of the three arrays stay together.
  belay::State state;
  state.AddRows("particles/id", mine.id);
  state.AddRows("particles/position", mine.position);
  state.AddRows("particles/velocity", mine.velocity);
  state.Add("step", mine.step);

  const auto restored = belay::Check(belay::RestoreLatest(*comm, dir, state));
  if (restored) {
    // If the number of ranks is unchanged, each rank has its own particles
    // again. Otherwise it has an even part of all, and the particles migrate as
    // in any step.
    Migrate(rank, size, mine);
    if (rank == 0) {
      std::printf("going on from step %lld on %d ranks\n",
                  static_cast<long long>(mine.step), size);
    }
  } else {
    Start(rank, size, mine);
  }

  belay::PlanCache cache;
  while (mine.step < steps) {
    if (mine.step == die_at && rank == size - 1) std::raise(SIGKILL);
    Step(mine);
    Migrate(rank, size, mine);
    if (mine.step % kSaveEvery == 0) {
      belay::Check(
          belay::Save(*comm, dir, mine.step, state, {.cache = &cache}));
    }
  }
  const uint64_t digest = Digest(mine);
  if (rank == 0) {
    std::printf("step %lld: particles %016llx\n",
                static_cast<long long>(mine.step),
                static_cast<unsigned long long>(digest));
  }
  belay::Check(comm->Close());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) {
    std::fprintf(stderr, "usage: 08_particles DIR STEPS [DIE_AT]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Run(argv[1], std::atoll(argv[2]), argc > 3 ? std::atoll(argv[3]) : -1);
  MPI_Finalize();
  return 0;
}
