// Checks of the options of a restore.

#ifndef BELAY_RESTORE_RESTORE_H_
#define BELAY_RESTORE_RESTORE_H_

#include <string>
#include <string_view>

#include "belay/options.h"
#include "belay/status.h"
#include "plan/restore_planner.h"

namespace belay {

// Checks the options about readers and memory. Messages begin with
// `operation "path"`.
// Errors: InvalidArgument - one is out of its range, or they contradict.
Status CheckReading(std::string_view operation, const std::string& path,
                    const RestoreOptions& options);

// Checks that no option is about single values, for restores without values of
// the program. Errors: InvalidArgument - names it.
Status CheckNoArgs(const std::string& dir, const RestoreOptions& options);

// Returns the options about readers for the planner.
ReadRules ReadRulesOf(const RestoreOptions& options);

}  // namespace belay

#endif  // BELAY_RESTORE_RESTORE_H_
