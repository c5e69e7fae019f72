// Whether the options of a manager are sound.

#ifndef BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_
#define BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_

#include "belay/manager/manager_options.h"
#include "belay/status.h"

namespace belay {

// Checks them.
// Errors: InvalidArgument - numbers out of their range, and options that
//   contradict each other; all in one message.
Status CheckManagerOptions(const ManagerOptions& options);

}  // namespace belay

#endif  // BELAY_MANAGER_CHECK_MANAGER_OPTIONS_H_
