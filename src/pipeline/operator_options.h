// Variables of the environment by which an operator overrides the options of a
// manager.

#ifndef BELAY_PIPELINE_OPERATOR_OPTIONS_H_
#define BELAY_PIPELINE_OPERATOR_OPTIONS_H_

#include <map>
#include <string>
#include <vector>

#include "belay/manager/job.h"
#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/status.h"

namespace belay {

// Returns BELAY_DIR and the variables of rows in core/option_table.h.
const std::vector<const char*>& OperatorVariables();

// Returns a line for each name that is close to a variable of belay but is
// none.
std::vector<std::string> MisspeltVariables(
    const std::vector<std::string>& names);

// The texts of variables that are set, by name.
using OperatorOptions = std::map<std::string, std::string>;

// Reads the variables; an empty one counts as unset. Messages name no
// directory.
// Errors: InvalidArgument - some cannot be parsed; names all of them, and what
//   each needs.
StatusOr<OperatorOptions> ParseOperatorOptions(const VariableLookup& lookup);

// Overrides the directory and the options of a manager, and drops the rules
// that contradict them. Of a manager that only reads, overrides the directory
// alone. Returns a line for each change.
std::vector<std::string> ApplyOperatorOptions(const OperatorOptions& wanted,
                                              std::string& dir,
                                              ManagerOptions& options);

// Overrides options of a single save.
void ApplyToSave(const OperatorOptions& wanted, SaveOptions& save);

}  // namespace belay

#endif  // BELAY_PIPELINE_OPERATOR_OPTIONS_H_
