// Whether this host sees what another one has made.

#ifndef BELAY_IO_STEPS_VISIBILITY_H_
#define BELAY_IO_STEPS_VISIBILITY_H_

#include <string>

#include "belay/status.h"

namespace belay {

// Waits until `path` is there, for `seconds` at most: a network file system may
// show a new name late. Returns whether it is. Local.
// Errors: those of Exists.
StatusOr<bool> WaitUntilSeen(const std::string& path, double seconds);

// The same until `path` is there and holds `content`. Local.
// Errors: those of PosixFile.
StatusOr<bool> WaitUntilHolds(const std::string& path,
                              const std::string& content, double seconds);

}  // namespace belay

#endif  // BELAY_IO_STEPS_VISIBILITY_H_
