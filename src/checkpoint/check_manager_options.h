// Whether the options of a manager are sound, and equal on all ranks.

#ifndef BELAY_CHECKPOINT_CHECK_MANAGER_OPTIONS_H_
#define BELAY_CHECKPOINT_CHECK_MANAGER_OPTIONS_H_

#include <string>
#include <vector>

#include "belay/manager_options.h"
#include "belay/status.h"

namespace belay {

// Checks them. Local.
// Errors: InvalidArgument - numbers out of their range, and options that
//   contradict each other; all in one message.
Status CheckManagerOptions(const ManagerOptions& options);

// An option that has to be the same on all ranks, as bytes to compare. Of a
// function only whether it is set.
struct CommonOption {
  std::string name;
  std::string bytes;
};

// The options but for those that Save compares itself. Local.
std::vector<CommonOption> CommonManagerOptions(const ManagerOptions& options);

}  // namespace belay

#endif  // BELAY_CHECKPOINT_CHECK_MANAGER_OPTIONS_H_
