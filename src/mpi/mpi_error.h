// MPI errors as statuses, and ending a program after an error.

#ifndef BELAY_MPI_MPI_ERROR_H_
#define BELAY_MPI_MPI_ERROR_H_

#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

bool IsMpiRunning();

// Prints `where` and the error, only once if all ranks got the same error. Then
// ends all ranks of the job with exit code 1: with MPI_Abort if MPI runs,
// otherwise with std::exit.
[[noreturn]] void EndOnError(const std::string& where, const Status& error);

// Returns OK for MPI_SUCCESS, otherwise the Status for MPI's error class:
//   MPI_ERR_NO_SPACE MPI_ERR_QUOTA        ResourceExhausted
//   MPI_ERR_FILE_EXISTS                   AlreadyExists
//   MPI_ERR_NO_SUCH_FILE                  NotFound
//   MPI_ERR_ACCESS MPI_ERR_READ_ONLY      PermissionDenied
//   MPI_ERR_IO                            Unavailable
//   MPI_ERR_TRUNCATE                      InvalidArgument: different calls
//   others                                Internal
// The message is `SITE "OBJECT": MPI's text`. Passes the fault point `site`.
Status MpiStatus(int code, std::string_view site, std::string_view object = {});

// Like MpiStatus, but leaves the fault point to the caller.
Status MpiError(int code, std::string_view site, std::string_view object = {});

// The error of ranks that are in different calls of the library.
inline constexpr std::string_view kDifferentCalls =
    "ranks are in different calls of belay; every rank of the communicator "
    "must make the same calls in the same order";

inline Status DifferentCalls() {
  return absl::InvalidArgumentError(
      absl::string_view(kDifferentCalls.data(), kDifferentCalls.size()));
}

}  // namespace belay

#endif  // BELAY_MPI_MPI_ERROR_H_
