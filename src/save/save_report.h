// The progress and the result of a save.

#ifndef BELAY_SAVE_SAVE_REPORT_H_
#define BELAY_SAVE_SAVE_REPORT_H_

#include <cstdint>
#include <functional>

#include "belay/status.h"

namespace belay {

// Progress of a save, told to a function of the program.

// Turns bytes that were written into calls of a function of the program, which
// is told of `total` at most; empty for an empty one. Borrows it.
std::function<Status(int64_t)> ProgressUpTo(
    int64_t total,
    const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_REPORT_H_
