// Environment variables with which an operator overrides the options of a
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

// Returns BELAY_DIR and the variables listed in core/option_table.h.
const std::vector<const char*>& OperatorVariables();

// Returns a line for each name that resembles a variable of belay but is not
// one.
std::vector<std::string> MisspeltVariables(
    const std::vector<std::string>& names);

// Maps the names of variables that are set to their values.
using OperatorOptions = std::map<std::string, std::string>;

// Reads the variables. Empty variables are treated as unset. Messages do not
// name a directory.
// Errors: InvalidArgument - some cannot be parsed; names all of them, and what
//   each needs.
StatusOr<OperatorOptions> ParseOperatorOptions(const VariableLookup& lookup);

// Overrides the directory and the options of a manager, and drops the rules
// that contradict them. For a read-only manager, overrides only the directory.
// Returns a line for each change.
std::vector<std::string> ApplyOperatorOptions(const OperatorOptions& wanted,
                                              std::string& dir,
                                              ManagerOptions& options);

// Overrides options of a single save.
void ApplyToSave(const OperatorOptions& wanted, SaveOptions& save);

}  // namespace belay

#endif  // BELAY_PIPELINE_OPERATOR_OPTIONS_H_
