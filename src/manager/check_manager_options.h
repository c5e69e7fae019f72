// Checks the options of a manager.

#ifndef BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_
#define BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_

#include "belay/manager/manager_options.h"
#include "belay/status.h"

namespace belay {

// Checks all options.
// Errors: InvalidArgument - numbers out of range, or options that contradict
//   each other; one message lists all mistakes.
Status CheckManagerOptions(const ManagerOptions& options);

}  // namespace belay

#endif  // BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_
