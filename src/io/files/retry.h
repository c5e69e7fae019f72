// Calls of the operating system that a signal may interrupt.

#ifndef BELAY_IO_FILES_RETRY_H_
#define BELAY_IO_FILES_RETRY_H_

#include <cerrno>

namespace belay {

// Repeats a call as long as a signal interrupts it; returns what it returned.
// Local.
template <typename Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace belay

#endif  // BELAY_IO_FILES_RETRY_H_
