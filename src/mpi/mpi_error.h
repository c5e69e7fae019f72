// MPI return codes as Status. Every MPI call of the library goes through here.

#ifndef BELAY_MPI_MPI_ERROR_H_
#define BELAY_MPI_MPI_ERROR_H_

#include <string_view>

#include "belay/status.h"

namespace belay {

// Returns OK for MPI_SUCCESS, else the Status that fits MPI's error class
// (MPI_ERR_NO_SPACE, MPI_ERR_QUOTA: ResourceExhausted; MPI_ERR_FILE_EXISTS:
// AlreadyExists; MPI_ERR_NO_SUCH_FILE: NotFound; MPI_ERR_ACCESS,
// MPI_ERR_READ_ONLY: PermissionDenied; MPI_ERR_IO: Unavailable;
// MPI_ERR_TRUNCATE, which says that ranks are in different calls:
// InvalidArgument; others: Internal) with the message `SITE "OBJECT": MPI's
// text`. Passes the fault point `site`. An empty object is left out. Local.
Status MpiStatus(int code, std::string_view site, std::string_view object = {});

// The same without a fault point, for calls whose caller passes one. Local.
Status MpiError(int code, std::string_view site, std::string_view object = {});

// The error of ranks that are in different calls of the library.
inline constexpr std::string_view kDifferentCalls =
    "ranks are in different calls of belay; every rank of the communicator "
    "must make the same calls in the same order";

// Local.
inline Status DifferentCalls() {
  return absl::InvalidArgumentError(
      absl::string_view(kDifferentCalls.data(), kDifferentCalls.size()));
}

}  // namespace belay

#endif  // BELAY_MPI_MPI_ERROR_H_
