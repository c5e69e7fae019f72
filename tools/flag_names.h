// Translates the library's errors to the flags of the command.

#ifndef BELAY_TOOLS_FLAG_NAMES_H_
#define BELAY_TOOLS_FLAG_NAMES_H_

#include "belay/status.h"

namespace belay::tools {

// Returns the error of an export or an import, with names of the library's
// options replaced by flags of the command. Quoted text is unchanged.
Status WithFlagNames(const Status& status);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_FLAG_NAMES_H_
