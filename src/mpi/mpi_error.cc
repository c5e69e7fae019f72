#include "mpi/mpi_error.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "belay/check.h"
#include "core/fault.h"
#include "core/text.h"
#include "mpi/collective.h"

namespace belay {
namespace {

// Rank 0 prints an error that all ranks got, and ends the job. The others wait
// this long, in case rank 0 does not have the error.
constexpr std::chrono::seconds kPatienceForRoot{5};

absl::StatusCode ToStatusCode(int error_class) {
  switch (error_class) {
    case MPI_ERR_NO_SPACE:
    case MPI_ERR_QUOTA:
      return absl::StatusCode::kResourceExhausted;
    case MPI_ERR_FILE_EXISTS:
      return absl::StatusCode::kAlreadyExists;
    case MPI_ERR_NO_SUCH_FILE:
      return absl::StatusCode::kNotFound;
    case MPI_ERR_ACCESS:
    case MPI_ERR_READ_ONLY:
      return absl::StatusCode::kPermissionDenied;
    // ROMIO's class for errno values without a class of their own.
    case MPI_ERR_IO:
      return absl::StatusCode::kUnavailable;
    // All messages of one call have the same size.
    case MPI_ERR_TRUNCATE:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

std::string DescribeCode(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) {
    return Cat("MPI error code ", code);
  }
  return std::string(text, length);
}

}  // namespace

bool IsMpiRunning() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

void EndOnError(const std::string& where, const Status& error) {
  const bool is_up = IsMpiRunning();
  int rank = 0;
  if (is_up) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0 && NamesItsRank(std::string(error.message()))) {
    std::this_thread::sleep_for(kPatienceForRoot);
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

Status MpiError(int code, std::string_view site, std::string_view object) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  int error_class = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &error_class);
  const std::string quoted =
      object.empty() ? std::string() : Cat(" \"", object, "\"");
  std::string text = Cat(site, quoted, ": ", DescribeCode(code));
  if (error_class == MPI_ERR_TRUNCATE) text += Cat("; ", kDifferentCalls);
  return Status(ToStatusCode(error_class), text);
}

Status MpiStatus(int code, std::string_view site, std::string_view object) {
  Status status = MpiError(code, site, object);
  status.Update(fault::Point(site));
  return status;
}

}  // namespace belay
