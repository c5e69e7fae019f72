// The options of a restore that say who reads.

#ifndef BELAY_RESTORE_RESTORE_H_
#define BELAY_RESTORE_RESTORE_H_

#include <string>
#include <string_view>

#include "belay/options.h"
#include "belay/status.h"
#include "plan/restore_planner.h"

namespace belay {

// Which options of a restore say who reads.

// Checks them, and how much may be under way. Messages begin with
// `operation "path"`.
// Errors: InvalidArgument - one is out of its range, or they contradict.
Status CheckReading(std::string_view operation, const std::string& path,
                    const RestoreOptions& options);

// Checks that no option speaks of single values, where the program has none
// yet.
// Errors: InvalidArgument - names it.
Status CheckNoArgs(const std::string& dir, const RestoreOptions& options);

// The same for the planner.
ReadRules ReadRulesOf(const RestoreOptions& options);

}  // namespace belay

#endif  // BELAY_RESTORE_RESTORE_H_
