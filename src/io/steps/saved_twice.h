// The error of two saves of one step at the same time.

#ifndef BELAY_IO_STEPS_SAVED_TWICE_H_
#define BELAY_IO_STEPS_SAVED_TWICE_H_

#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// FailedPrecondition: another save of the step `path` is in the way; `what`
// says what it has done. Local.
Status SavedTwice(std::string_view operation, const std::string& path,
                  std::string_view what);

}  // namespace belay

#endif  // BELAY_IO_STEPS_SAVED_TWICE_H_
