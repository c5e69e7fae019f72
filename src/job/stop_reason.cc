#include "belay/manager/stop_reason.h"

#include "absl/strings/str_format.h"
#include "job/stop_signals.h"

namespace belay {

std::string StopReason::ToString() const {
  if (signal == 0)
    return absl::StrFormat("the time limit in %.0f s", seconds_left);
  return absl::StrFormat("%s on rank %d", SignalText(signal), rank);
}

}  // namespace belay
