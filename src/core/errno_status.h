// Errors of the system as statuses.

#ifndef BELAY_CORE_ERRNO_STATUS_H_
#define BELAY_CORE_ERRNO_STATUS_H_

#include <span>
#include <string_view>

#include "belay/status.h"

namespace belay {

// Returns the error `OPERATION "OBJECT": text of the error number in lower
// case`.
//   ENOSPC EDQUOT EFBIG ENOMEM            ResourceExhausted
//   ENOENT                                NotFound
//   EEXIST ENOTEMPTY                      AlreadyExists
//   EACCES EPERM EROFS                    PermissionDenied
//   ENOTDIR EISDIR EINVAL
//   ELOOP ENAMETOOLONG                    InvalidArgument
//   TransientErrors()                     Unavailable
//   others                                Internal
Status ErrnoStatus(int error, std::string_view operation,
                   std::string_view object);

// Returns the error numbers of faults that may pass, such as of a device, a
// server or a network that does not answer.
std::span<const int> TransientErrors();

}  // namespace belay

#endif  // BELAY_CORE_ERRNO_STATUS_H_
