// The error of ranks that are in different calls of the library.

#ifndef BELAY_MPI_DIFFERENT_CALLS_H_
#define BELAY_MPI_DIFFERENT_CALLS_H_

#include <string_view>

#include "belay/status.h"

namespace belay {

inline constexpr std::string_view kDifferentCalls =
    "ranks are in different calls of belay; every rank of the communicator "
    "must make the same calls in the same order";

// Local.
inline Status DifferentCalls() {
  return absl::InvalidArgumentError(
      absl::string_view(kDifferentCalls.data(), kDifferentCalls.size()));
}

}  // namespace belay

#endif  // BELAY_MPI_DIFFERENT_CALLS_H_
