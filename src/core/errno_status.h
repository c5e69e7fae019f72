// Converts system errors to statuses.

#ifndef BELAY_CORE_ERRNO_STATUS_H_
#define BELAY_CORE_ERRNO_STATUS_H_

#include <span>
#include <string_view>

#include "belay/status.h"

namespace belay {

// Returns the error `OPERATION "OBJECT": MESSAGE`, where MESSAGE is the
// system's text for the error number, in lower case.
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

// Returns the error numbers of faults that may be temporary, such as those of a
// device, server or network that does not respond.
std::span<const int> TransientErrors();

}  // namespace belay

#endif  // BELAY_CORE_ERRNO_STATUS_H_
