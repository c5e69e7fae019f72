// Ends the program on an error: for main, examples and jobs that cannot
// continue without the value.
//
//   belay::Comm comm = belay::Check(belay::Comm::Duplicate(MPI_COMM_WORLD));
//   belay::Check(belay::Restore(comm, "run", belay::kLatestStep, state));

#ifndef BELAY_CHECK_H_
#define BELAY_CHECK_H_

#include <utility>

#include "belay/status.h"

namespace belay {

// Does nothing if the status is OK. Otherwise prints it with the caller's
// location and ends all ranks of the job with exit code 1: with MPI_Abort if
// MPI is initialised, else with std::exit. An error that all ranks got is
// printed once. Local.
void Check(const Status& status, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());

// The same, and returns the value. Local.
template <typename T>
T Check(StatusOr<T> value, const char* file = __builtin_FILE(),
        int line = __builtin_LINE()) {
  Check(value.status(), file, line);
  return *std::move(value);
}

}  // namespace belay

#endif  // BELAY_CHECK_H_
