// Checks of the options of a manager.

#ifndef BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_
#define BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_

#include <vector>

#include "belay/manager/manager_options.h"
#include "belay/status.h"
#include "pipeline/save_options.h"

namespace belay {

// Errors: InvalidArgument - numbers out of their range, and options that
//   contradict each other; all in one message.
Status CheckManagerOptions(const ManagerOptions& options);

// Returns the options that must be equal on all ranks, without those of `save`.
// For functions, only whether they are set counts.
std::vector<CommonOption> CommonManagerOptions(const ManagerOptions& options);

}  // namespace belay

#endif  // BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_
