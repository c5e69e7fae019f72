// Heat on a plate in C; restartable on any number of ranks.
//
//   mpirun -n 4 ./c_heat run 200          # saves every 50 steps
//   mpirun -n 3 ./c_heat run 400          # continues from step 200
//
// Each rank owns some rows of the plate, in memory with one ghost cell on each
// side. A step has only the owned rows, as one array for all ranks. The field
// is the same to the last bit, however often the run was stopped and on however
// many ranks it continued.
//
// With a third argument, the job kills itself in that step, without a message.

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "belay/belay_c.h"

enum { kRows = 96, kColumns = 64, kWidth = kColumns + 2 };

// The part of the plate that one rank holds.
struct plate {
  int64_t first_row;
  int64_t rows;
  double* now;   // rows of kWidth, one more above and below
  double* next;  // the same
  int64_t step;
};

// Ends the job on an error.
static void Check(int code) { belay_check(code, __FILE__, __LINE__); }

static double* At(double* cells, int64_t row, int64_t column) {
  return &cells[(row + 1) * kWidth + column + 1];
}

static struct plate Cut(int rank, int size) {
  struct plate plate = {0, 0, NULL, NULL, 0};
  const int64_t end = kRows * (rank + 1) / size;
  plate.first_row = kRows * rank / size;
  plate.rows = end - plate.first_row;
  plate.now = calloc((size_t)((plate.rows + 2) * kWidth), sizeof(double));
  plate.next = calloc((size_t)((plate.rows + 2) * kWidth), sizeof(double));
  return plate;
}

// Starts with a hot spot away from the edges, which stay cold.
static void Start(struct plate* plate) {
  for (int64_t i = 0; i < plate->rows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      const int is_hot = (plate->first_row + i) / 8 == 3 && j / 8 == 5;
      *At(plate->now, i, j) = is_hot ? 1000.0 : 0.0;
    }
  }
}

// Sends the first and the last row to the ranks above and below.
static void Exchange(struct plate* plate, int rank, int size) {
  const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
  MPI_Sendrecv(At(plate->now, 0, 0), kColumns, MPI_DOUBLE, above, 0,
               At(plate->now, plate->rows, 0), kColumns, MPI_DOUBLE, below, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(At(plate->now, plate->rows - 1, 0), kColumns, MPI_DOUBLE, below,
               1, At(plate->now, -1, 0), kColumns, MPI_DOUBLE, above, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Does one step. The memory of `now` must not move: the state refers to it.
static void Step(struct plate* plate) {
  double* const now = plate->now;
  for (int64_t i = 0; i < plate->rows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      const double around = *At(now, i - 1, j) + *At(now, i + 1, j) +
                            *At(now, i, j - 1) + *At(now, i, j + 1);
      *At(plate->next, i, j) =
          *At(now, i, j) + 0.2 * (around - 4 * *At(now, i, j));
    }
  }
  memcpy(now, plate->next,
         (size_t)((plate->rows + 2) * kWidth) * sizeof(double));
  ++plate->step;
}

// Returns a number that changes if any bit of the field differs.
static uint64_t Digest(const struct plate* plate) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < plate->rows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      uint64_t bits = 0;
      memcpy(&bits, At(plate->now, i, j), sizeof(bits));
      sum += bits * (2 * (uint64_t)((plate->first_row + i) * kColumns + j) + 1);
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

// Names the values of the program: its rows of the plate, and the step.
static void Describe(struct plate* plate, belay_state* state) {
  const int64_t global_shape[2] = {kRows, kColumns};
  const int64_t offset[2] = {plate->first_row, 0};
  const int64_t shape[2] = {plate->rows, kColumns};
  const int64_t strides[2] = {kWidth, 1};
  Check(belay_state_add_piece(state, "temperature", BELAY_F64, 2, global_shape,
                              offset, shape, strides, At(plate->now, 0, 0)));
  Check(belay_state_add_scalar(state, "step", BELAY_I64, &plate->step));
}

static void Run(const char* dir, int64_t steps, int64_t die_at) {
  belay_run* run = NULL;
  int rank = 0, size = 0;
  int64_t restored = BELAY_NO_STEP;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  struct plate plate = Cut(rank, size);
  Check(belay_run_open(MPI_COMM_WORLD, dir,
                       "save_interval_steps=50 save_first_step=false", &run));
  Describe(&plate, belay_run_state(run));

  // Continues from the newest step, if there is one.
  Check(belay_run_restore(run, NULL, &restored));
  if (restored == BELAY_NO_STEP) {
    Start(&plate);
  } else if (rank == 0) {
    printf("going on from step %lld on %d ranks\n", (long long)plate.step,
           size);
  }
  Exchange(&plate, rank, size);

  while (plate.step < steps) {
    if (plate.step == die_at && rank == size - 1) raise(SIGKILL);
    Step(&plate);
    Exchange(&plate, rank, size);
    Check(belay_run_step(run, plate.step, NULL));
  }
  const uint64_t digest = Digest(&plate);
  if (rank == 0) {
    printf("step %lld: field %016llx\n", (long long)plate.step,
           (unsigned long long)digest);
  }
  Check(belay_run_close(&run));
  free(plate.now);
  free(plate.next);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) {
    fprintf(stderr, "usage: c_heat DIR STEPS [DIE_AT]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  Run(argv[1], atoll(argv[2]), argc > 3 ? atoll(argv[3]) : -1);
  MPI_Finalize();
  return 0;
}
