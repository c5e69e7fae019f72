// Sound on an unstructured mesh, on any number of ranks.
//
//   mpirun -n 4 ./09_mesh run 200             # saves every 50 steps
//   mpirun -n 3 ./09_mesh run 400             # continues from step 200
//
// The number of a cell is unrelated to its position. A partitioner assigns each
// rank the cells that it owns; their neighbors on other ranks are its ghost
// cells. A checkpoint has the owned cells: one array for each quantity, in the
// order of the cell numbers. Each run partitions the mesh again and restores
// the cells that it needs by their numbers, including ghost cells, so no
// exchange is needed before the first step. The result is the same to the last
// bit, however often the run was stopped and on however many ranks it
// continued.
//
// With a third argument, the job kills itself in that step, without a message.

#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "belay/check.h"
#include "belay/save_restore.h"

namespace {

using Vector = std::array<double, 2>;

constexpr size_t kSide = 48;  // cells along each wall
constexpr size_t kCells = kSide * kSide;
constexpr int64_t kSaveEvery = 50;
constexpr double kTime = 0.02;  // of a step

struct Cell {
  Vector center;
  std::vector<size_t> neighbors;  // their numbers, ascending
};

// Returns all cells by number, on every rank; a real code would read them from
// a file. The centers are corners of triangles, whose sides connect neighbors.
std::vector<Cell> MakeMesh() {
  std::mt19937 random(9);
  std::vector<size_t> number(kCells);
  std::iota(number.begin(), number.end(), 0);
  std::ranges::shuffle(number, random);
  std::vector<Cell> mesh(kCells);
  const auto link = [&](size_t i, size_t j) {
    mesh[number[i]].neighbors.push_back(number[j]);
    mesh[number[j]].neighbors.push_back(number[i]);
  };
  for (size_t i = 0; i < kCells; ++i) {
    const size_t x = i % kSide, y = i / kSide;
    Vector& center = mesh[number[i]].center;
    center[0] = static_cast<double>(x) + 0.7 * 0x1p-32 * random();
    center[1] = static_cast<double>(y) + 0.7 * 0x1p-32 * random();
    const bool is_last = x + 1 == kSide, is_top = y + 1 == kSide;
    if (!is_last) link(i, i + 1);
    if (!is_top) link(i, i + kSide);
    if (is_last || is_top) continue;
    const size_t turned = random() % 2;  // one diagonal or the other
    link(i + turned, i + kSide + 1 - turned);
  }
  for (Cell& cell : mesh) std::ranges::sort(cell.neighbors);
  return mesh;
}

// The part of the mesh on one rank; all members hold cell numbers.
struct Part {
  std::vector<size_t> owned;
  std::vector<size_t> local;               // `owned`, then the ghost cells
  std::vector<size_t> place;               // of each number in `local`
  std::map<int, std::set<size_t>> ghosts;  // by the rank that owns them
  std::map<int, std::set<size_t>> sent;    // by the rank that needs them
};

// The partitioner: returns the rank whose strip contains the cell.
int OwnerOf(const Cell& cell, int size) {
  return static_cast<int>(cell.center[0] / kSide * size);
}

Part Cut(const std::vector<Cell>& mesh, int rank, int size) {
  Part part{.place = std::vector<size_t>(kCells)};
  for (size_t id = 0; id < kCells; ++id) {
    if (OwnerOf(mesh[id], size) != rank) continue;
    part.owned.push_back(id);
    for (const size_t other : mesh[id].neighbors) {
      const int owner = OwnerOf(mesh[other], size);
      if (owner == rank) continue;
      part.ghosts[owner].insert(other);
      part.sent[owner].insert(id);
    }
  }
  part.local = part.owned;
  for (const auto& [owner, ids] : part.ghosts) {
    part.local.insert(part.local.end(), ids.begin(), ids.end());
  }
  for (size_t i = 0; i < part.local.size(); ++i) part.place[part.local[i]] = i;
  return part;
}

// Values of the cells Part::local before a step, and of Part::owned after it.
struct Sound {
  std::vector<double> pressure;
  std::vector<Vector> velocity;
  int64_t step = 0;
};

// Starts with a bang in a corner, and silence elsewhere.
void Start(const std::vector<Cell>& mesh, const Part& part, Sound& sound) {
  for (const size_t id : part.local) {
    const Vector& at = mesh[id].center;
    sound.pressure.push_back(at[0] < 9 && at[1] < 9 ? 1000 : 0);
    sound.velocity.push_back({0, 0});
  }
}

// Appends the values of the ghost cells to those of the owned cells.
template <typename T>
void Exchange(const Part& part, std::vector<T>& values) {
  const auto bytes = [](const std::set<size_t>& ids) {
    return static_cast<int>(ids.size() * sizeof(T));
  };
  values.resize(part.local.size());
  T* ghosts = values.data() + part.owned.size();
  std::vector<MPI_Request> requests;
  for (const auto& [owner, ids] : part.ghosts) {
    MPI_Irecv(ghosts, bytes(ids), MPI_BYTE, owner, 0, MPI_COMM_WORLD,
              &requests.emplace_back());
    ghosts += ids.size();
  }
  std::map<int, std::vector<T>> sent;
  for (const auto& [to, ids] : part.sent) {
    for (const size_t id : ids) sent[to].push_back(values[part.place[id]]);
    MPI_Isend(sent[to].data(), bytes(ids), MPI_BYTE, to, 0, MPI_COMM_WORLD,
              &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(),
              MPI_STATUSES_IGNORE);
}

// Each cell adds up what its neighbors do to it, in the order of their numbers,
// which is the same on any rank.
void Step(const std::vector<Cell>& mesh, const Part& part, Sound& sound) {
  Sound next{.step = sound.step + 1};
  for (const size_t id : part.owned) {
    const double here = sound.pressure[part.place[id]];
    const Vector& flow = sound.velocity[part.place[id]];
    double pressure = here;
    Vector velocity = flow;
    for (const size_t other : mesh[id].neighbors) {
      const double dx = mesh[other].center[0] - mesh[id].center[0];
      const double dy = mesh[other].center[1] - mesh[id].center[1];
      const double dp = sound.pressure[part.place[other]] - here;
      const double du = sound.velocity[part.place[other]][0] - flow[0];
      const double dv = sound.velocity[part.place[other]][1] - flow[1];
      const double square = dx * dx + dy * dy;
      pressure += kTime * (dp - (du * dx + dv * dy) / square);
      velocity[0] += kTime * (du - dp * dx / square);
      velocity[1] += kTime * (dv - dp * dy / square);
    }
    next.pressure.push_back(pressure);
    next.velocity.push_back(velocity);
  }
  sound = std::move(next);
}

// Returns a number that changes if any bit of any cell differs.
uint64_t Digest(const Part& part, const Sound& sound) {
  uint64_t sum = 0;
  for (size_t i = 0; i < part.owned.size(); ++i) {
    uint64_t of_one = part.owned[i];
    const auto& [u, v] = sound.velocity[i];
    for (const double x : {sound.pressure[i], u, v}) {
      of_one = of_one * 0x9e3779b97f4a7c15 + std::bit_cast<uint64_t>(x);
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
  const std::vector<Cell> mesh = MakeMesh();
  const Part part = Cut(mesh, rank, size);
  Sound sound;

  // Each save and restore reads the ids. In a restore, several ranks may
  // request a cell, so it also fills ghost cells; in a save, each cell must
  // come from one rank.
  std::vector<size_t> ids = part.local;
  belay::State state;
  state.AddRowsById("cells/pressure", ids, sound.pressure, {.count = kCells});
  state.AddRowsById("cells/velocity", ids, sound.velocity, {.count = kCells});
  state.Add("step", sound.step);
  const auto restored = belay::Check(belay::RestoreLatest(*comm, dir, state));
  ids = part.owned;
  if (!restored) {
    Start(mesh, part, sound);
  } else if (rank == 0) {
    std::printf("going on from step %lld on %d ranks\n",
                static_cast<long long>(sound.step), size);
  }

  belay::PlanCache cache;
  while (sound.step < steps) {
    if (sound.step == die_at && rank == size - 1) std::raise(SIGKILL);
    Step(mesh, part, sound);
    if (sound.step % kSaveEvery == 0) {
      belay::Check(
          belay::Save(*comm, dir, sound.step, state, {.cache = &cache}));
    }
    Exchange(part, sound.pressure);
    Exchange(part, sound.velocity);
  }
  const uint64_t digest = Digest(part, sound);
  if (rank == 0) {
    std::printf("step %lld: cells %016llx\n",
                static_cast<long long>(sound.step),
                static_cast<unsigned long long>(digest));
  }
  belay::Check(comm->Close());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) {
    std::fprintf(stderr, "usage: 09_mesh DIR STEPS [DIE_AT]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Run(argv[1], std::atoll(argv[2]), argc > 3 ? std::atoll(argv[3]) : -1);
  MPI_Finalize();
  return 0;
}
