// Ends by Check in different ways; what it prints is judged from outside.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "belay/check.h"
#include "belay/comm.h"
#include "belay/save_restore.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string_view name = argv[1];
  if (name == "without_mpi") {
    belay::Check(absl::NotFoundError("no \"file\""));
    return 3;
  }
  MPI_Init(&argc, &argv);
  belay::Comm comm = belay::Check(belay::Comm::Duplicate(MPI_COMM_WORLD));
  belay::Check(absl::OkStatus());
  if (name == "agreed") {
    belay::Check(belay::Restore(comm, "no_such_run", belay::kLatestStep,
                                belay::State()));
  } else if (comm.rank() == comm.size() - 1) {
    belay::Check(absl::InvalidArgumentError("a mistake of one rank"));
  }
  sleep(30);  // the others are somewhere else
  std::fputs("nothing ended the job\n", stderr);
  MPI_Finalize();
  return 0;
}
