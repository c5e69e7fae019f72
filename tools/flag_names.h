// Errors of the library in the words of the command.

#ifndef BELAY_TOOLS_FLAG_NAMES_H_
#define BELAY_TOOLS_FLAG_NAMES_H_

#include "belay/status.h"

namespace belay::tools {

// Returns the error of an export or an import with flags of the command where
// it names options of the library. What stands in quotes stays as it is.
Status WithFlagNames(const Status& status);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_FLAG_NAMES_H_
