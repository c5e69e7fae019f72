#include "base/errno_status.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"

namespace belay {
namespace {

absl::StatusCode CodeOf(int error) {
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
  return Status(CodeOf(error), message);
}

}  // namespace belay
