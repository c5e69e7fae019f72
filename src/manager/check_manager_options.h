// Whether the options of a manager are sound, and equal on all ranks.

#ifndef BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_
#define BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_

#include <vector>

#include "belay/manager/manager_options.h"
#include "belay/status.h"
#include "pipeline/save_options.h"

namespace belay {

// Checks them.
// Errors: InvalidArgument - numbers out of their range, and options that
//   contradict each other; all in one message.
Status CheckManagerOptions(const ManagerOptions& options);

// The options that have to be the same on all ranks, without those of `save`:
// of a function only whether it is set.
std::vector<CommonOption> CommonManagerOptions(const ManagerOptions& options);

}  // namespace belay

#endif  // BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_
