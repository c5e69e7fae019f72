// The other end of a ChildProcess: what the program does that was started.

#ifndef BELAY_BASE_PROCESS_SERVE_PARENT_H_
#define BELAY_BASE_PROCESS_SERVE_PARENT_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// Answers a request, and may write to the shared memory.
using Serve = std::function<StatusOr<std::string>(std::string_view request,
                                                  std::span<std::byte> shared)>;

// Answers all requests of the process that has started this program as a
// ChildProcess. Returns only where none has: then it prints that it is no
// program to be started by hand. Local.
void ServeParent(const Serve& serve);

}  // namespace belay

#endif  // BELAY_BASE_PROCESS_SERVE_PARENT_H_
