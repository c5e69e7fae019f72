// What an operator asks of a manager by variables of the environment, in place
// of what the program says.

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

// All that are read: BELAY_DIR and those of rows in core/option_table.h.
const std::vector<const char*>& OperatorVariables();

// Of these names of variables, those that belay does not have but that are
// close to one that it has, as a line for each that says so.
std::vector<std::string> MisspeltVariables(
    const std::vector<std::string>& names);

// The texts of those that are set, by name.
using OperatorOptions = std::map<std::string, std::string>;

// Reads the variables; an empty one counts as unset. Messages name no
// directory. Errors: InvalidArgument - some cannot be parsed; names all of
// them, and what
//   each needs.
StatusOr<OperatorOptions> ParseOperatorOptions(const VariableLookup& lookup);

// Puts them in the place of the directory and the options of a manager, and of
// the rules that contradict them; of one that only reads, of the directory
// alone. Returns what has become other than it was, as a line for each.
std::vector<std::string> ApplyOperatorOptions(const OperatorOptions& wanted,
                                              std::string& dir,
                                              ManagerOptions& options);

// The same for how a step is saved.
void ApplyToSave(const OperatorOptions& wanted, SaveOptions& save);

}  // namespace belay

#endif  // BELAY_PIPELINE_OPERATOR_OPTIONS_H_
