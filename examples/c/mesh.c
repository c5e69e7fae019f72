// Heat on an unstructured mesh in C; restartable on any number of ranks.
//
//   mpirun -n 4 ./c_mesh run 200     # saves every 50 steps
//   mpirun -n 3 ./c_mesh run 400     # continues from step 200
//
// Cells have numbers from 1 on that are unrelated to their positions. Each run
// distributes the cells over the ranks again. A rank saves its own cells. It
// restores these and their neighbors on other ranks. The values are the same to
// the last bit, however often the run was stopped and on however many ranks it
// continued.
//
// With a third argument, the job kills itself in that step, without a message.

#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "belay/belay_c.h"

enum { kCells = 2500, kWidth = 50, kNeighbors = 4, kSaveEvery = 50 };

static void Check(int code) { belay_check(code, __FILE__, __LINE__); }

// Return the place of a cell along a line through all cells, and the cell at a
// place: 1301 * 1201 is 1 modulo the number of cells.
static int PlaceOf(int cell) { return (cell - 1) * 1301 % kCells; }
static int CellAt(int place) {
  return (place + kCells) % kCells * 1201 % kCells + 1;
}

static int OwnerOf(int cell, int size) { return PlaceOf(cell) * size / kCells; }

static int NeighborOf(int cell, int i) {
  const int steps[kNeighbors] = {-kWidth, -1, 1, kWidth};
  return CellAt(PlaceOf(cell) + steps[i]);
}

// The part of the mesh on one rank: its own cells, then their neighbors on
// other ranks.
struct part {
  int owned;
  int local;              // with the neighbors
  int count;              // of rows that are saved or restored
  int32_t ids[kCells];    // the numbers of the local cells
  double t[kCells];       // their values
  int where[kCells + 1];  // index of each cell in `ids`; -1: not here
  // For exchanges: the cells of all ranks, in rank order.
  int counts[1024], starts[1024];
  int32_t all_ids[kCells];
};

static void AddCell(struct part* part, int cell) {
  if (part->where[cell] >= 0) return;
  part->where[cell] = part->local;
  part->ids[part->local++] = cell;
}

static void Partition(struct part* part, int rank, int size) {
  memset(part->where, -1, sizeof(part->where));
  part->local = 0;
  for (int cell = 1; cell <= kCells; ++cell) {
    if (OwnerOf(cell, size) == rank) AddCell(part, cell);
  }
  part->owned = part->local;
  for (int i = 0; i < part->owned; ++i) {
    for (int k = 0; k < kNeighbors; ++k) {
      AddCell(part, NeighborOf(part->ids[i], k));
    }
  }
  MPI_Allgather(&part->owned, 1, MPI_INT, part->counts, 1, MPI_INT,
                MPI_COMM_WORLD);
  part->starts[0] = 0;
  for (int r = 1; r < size; ++r) {
    part->starts[r] = part->starts[r - 1] + part->counts[r - 1];
  }
  MPI_Allgatherv(part->ids, part->owned, MPI_INT32_T, part->all_ids,
                 part->counts, part->starts, MPI_INT32_T, MPI_COMM_WORLD);
}

// Starts with a hot spot.
static void Start(struct part* part) {
  for (int i = 0; i < part->local; ++i) {
    part->t[i] = PlaceOf(part->ids[i]) / kWidth == 7 ? 1000 : 0;
  }
}

// Updates the values of the neighbor cells on other ranks.
static void Exchange(struct part* part) {
  static double all[kCells];
  MPI_Allgatherv(part->t, part->owned, MPI_DOUBLE, all, part->counts,
                 part->starts, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int i = 0; i < kCells; ++i) {
    const int here = part->where[part->all_ids[i]];
    if (here >= part->owned) part->t[here] = all[i];
  }
}

static void Step(struct part* part) {
  static double next[kCells];
  for (int i = 0; i < part->owned; ++i) {
    double flow = 0;
    for (int k = 0; k < kNeighbors; ++k) {
      const int cell = NeighborOf(part->ids[i], k);
      flow += part->t[part->where[cell]] - part->t[i];
    }
    next[i] = part->t[i] + 0.2 * flow;
  }
  memcpy(part->t, next, (size_t)part->owned * sizeof(double));
}

// Returns a number that changes if any bit of any cell differs.
static uint64_t Digest(const struct part* part) {
  uint64_t sum = 0;
  for (int i = 0; i < part->owned; ++i) {
    uint64_t bits = 0;
    memcpy(&bits, &part->t[i], sizeof(bits));
    sum += bits * (2 * (uint64_t)part->ids[i] + 1);
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

static void Run(const char* dir, int64_t steps, int64_t die_at) {
  static struct part part;
  belay_comm* comm = NULL;
  belay_state* state = NULL;
  int rank = 0, size = 0;
  int64_t step = 0, restored = BELAY_NO_STEP;
  Check(belay_comm_create(MPI_COMM_WORLD, &comm));
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Partition(&part, rank, size);

  // Each save and restore reads the count and the ids. In a restore, several
  // ranks may request a cell, so it also fills the neighbors; in a save, each
  // cell must come from one rank.
  const belay_rows cells = {.dtype = BELAY_F64,
                            .count32 = &part.count,
                            .capacity = kCells,
                            .data = part.t,
                            .ids32 = part.ids,
                            .first_id = 1,
                            .total = kCells};
  Check(belay_state_create(&state));
  Check(belay_state_add_rows_by_id(state, "cells/t", &cells));
  Check(belay_state_add_scalar(state, "step", BELAY_I64, &step));
  part.count = part.local;
  Check(belay_restore_latest(comm, dir, state, NULL, &restored));
  part.count = part.owned;
  if (restored == BELAY_NO_STEP) {
    Start(&part);
  } else if (rank == 0) {
    printf("going on from step %lld on %d ranks\n", (long long)step, size);
  }

  while (step < steps) {
    if (step == die_at && rank == size - 1) raise(SIGKILL);
    Step(&part);
    Exchange(&part);
    ++step;
    if (step % kSaveEvery == 0) Check(belay_save(comm, dir, step, state, NULL));
  }
  const uint64_t digest = Digest(&part);
  if (rank == 0) {
    printf("step %lld: cells %016llx\n", (long long)step,
           (unsigned long long)digest);
  }
  belay_state_free(&state);
  Check(belay_comm_free(&comm));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) {
    fprintf(stderr, "usage: c_mesh DIR STEPS [DIE_AT]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Run(argv[1], atoll(argv[2]), argc > 3 ? atoll(argv[3]) : -1);
  MPI_Finalize();
  return 0;
}
