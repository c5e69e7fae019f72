#include "core/errno_status.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"

namespace belay {
namespace {

constexpr int kTransient[] = {
    // The device or the server failed without giving a reason.
    EIO, EREMOTEIO,
    // The server or the mount has been lost.
    ENOTCONN, ESTALE, ESHUTDOWN, EPIPE, EBADFD, ENOLINK, ECOMM, ECONNRESET,
    ECONNREFUSED, ECONNABORTED,
    // The network failed.
    ETIMEDOUT, ETIME, EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENETRESET,
    ENONET,
    // Temporary by definition.
    EAGAIN, EBUSY, EINTR, ERESTART, ENOBUFS, ENOLCK};

absl::StatusCode ToStatusCode(int error) {
  if (std::ranges::find(kTransient, error) != std::end(kTransient)) {
    return absl::StatusCode::kUnavailable;
  }
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOTDIR:
    case EISDIR:
    case EINVAL:
    case ELOOP:
    case ENAMETOOLONG:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

Status ErrnoStatus(int error, std::string_view operation,
                   std::string_view object) {
  std::string message(operation);
  message.append(" \"").append(object).append("\": ");
  message += absl::AsciiStrToLower(std::generic_category().message(error));
  return Status(ToStatusCode(error), message);
}

std::span<const int> TransientErrors() { return kTransient; }

}  // namespace belay
