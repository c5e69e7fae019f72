// Bytes that are known, but need not be written yet.

#ifndef BELAY_IO_FILES_LATER_WRITES_H_
#define BELAY_IO_FILES_LATER_WRITES_H_

#include <functional>
#include <vector>

#include "belay/status.h"

namespace belay {

// Writes into files that are there. Each owns all it uses, so that any thread
// can do it, and calls what it is given once its file is open.
using LaterWrites =
    std::vector<std::function<Status(const std::function<Status()>&)>>;

}  // namespace belay

#endif  // BELAY_IO_FILES_LATER_WRITES_H_
