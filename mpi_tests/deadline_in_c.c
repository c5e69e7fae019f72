// deadline_in_c CASE: the last rank does not make a call that has a deadline of
// a second. Judged from outside: the job ends with the line of the deadline.

#include <mpi.h>
#include <string.h>
#include <unistd.h>

#include "belay/belay_c.h"

int main(int argc, char** argv) {
  belay_options* options = NULL;
  belay_comm* comm = NULL;
  int rank = 0, size = 0;
  if (argc != 2) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  belay_options_create(&options);
  belay_options_set(options, "deadline_seconds", "1");
  if (rank == size - 1 && strcmp(argv[1], "create") == 0) pause();
  belay_comm_create_with_options(MPI_COMM_WORLD, options, &comm);
  if (rank == size - 1) pause();
  if (strcmp(argv[1], "count") == 0) {
    belay_count_rows(comm, "run", 1, "x", NULL);
  } else {
    belay_comm_free(&comm);
  }
  return 1;
}
