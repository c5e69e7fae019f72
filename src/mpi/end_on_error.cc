#include "mpi/end_on_error.h"

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/printable.h"
#include "base/text.h"
#include "belay/check.h"
#include "mpi/rank_suffix.h"

namespace belay {
namespace {

// What all ranks have is left to rank 0 to tell; the others wait so long for
// the end that it brings, should it not have the error after all.
constexpr std::chrono::seconds kPatience{5};

bool IsMpiUp() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

}  // namespace

void EndOnError(const std::string& where, const Status& error) {
  const bool is_up = IsMpiUp();
  int rank = 0;
  if (is_up) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0 && NamesItsRank(std::string(error.message()))) {
    std::this_thread::sleep_for(kPatience);
  }
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", where.c_str(),
               PrintableText(error.ToString()).c_str());
  std::fflush(stderr);
  if (is_up) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::exit(EXIT_FAILURE);
}

void Check(const Status& status, const char* file, int line) {
  if (!status.ok()) EndOnError(Cat(file, ":", line), status);
}

}  // namespace belay
