// A program that ends while a save in the background is under way, in C:
// left_in_c DIR.

#include <mpi.h>
#include <stdio.h>

#include "belay/belay_c.h"

static double values[50000];

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  MPI_Init(&argc, &argv);
  belay_comm* comm = NULL;
  belay_state* state = NULL;
  belay_options* options = NULL;
  belay_saver* saver = NULL;
  int code = belay_comm_create(MPI_COMM_WORLD, &comm);
  if (code == BELAY_OK) code = belay_state_create(&state);
  if (code == BELAY_OK) {
    const int64_t shape[1] = {50000};
    code = belay_state_add_array(state, "w", BELAY_F64, 1, shape, NULL, values);
  }
  if (code == BELAY_OK) code = belay_options_create(&options);
  if (code == BELAY_OK) {
    code = belay_options_set(options, "max_bytes_per_second", "500000");
  }
  if (code == BELAY_OK) code = belay_saver_create(comm, options, &saver);
  if (code == BELAY_OK) code = belay_saver_save(saver, argv[1], 1, state, NULL);
  if (code != BELAY_OK) {
    fprintf(stderr, "left_in_c: %s\n", belay_error_message());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
