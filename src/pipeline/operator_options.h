// Environment variables by which an operator overrides options of a program.

#ifndef BELAY_PIPELINE_OPERATOR_OPTIONS_H_
#define BELAY_PIPELINE_OPERATOR_OPTIONS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/manager/job.h"
#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/status.h"

namespace belay {

// Names of all variables.
inline constexpr std::array<const char*, 5> kOperatorVariables = {
    "BELAY_DIR", "BELAY_INTERVAL", "BELAY_KEEP", "BELAY_DURABLE",
    "BELAY_TRANSFER"};

// Returns a line for each of the names that is close to a variable of belay but
// is none.
std::vector<std::string> MisspeltVariables(
    const std::vector<std::string>& names);

// The variables that are set.
struct OperatorOptions {
  std::optional<std::string> dir;
  std::optional<int64_t> save_interval_steps;
  std::optional<int64_t> max_to_keep;
  std::optional<bool> durable;
  std::optional<Transfer> transfer;
};

// Reads the variables; an empty one counts as unset. Messages name no
// directory. Errors: InvalidArgument - some cannot be parsed; names all of
// them, and what
//   each needs.
StatusOr<OperatorOptions> ParseOperatorOptions(const VariableLookup& lookup);

// Overrides the directory and the options of a manager, and removes rules that
// contradict them; for a read-only manager, only the directory. Returns a line
// for each change.
std::vector<std::string> ApplyOperatorOptions(const OperatorOptions& wanted,
                                              std::string& dir,
                                              ManagerOptions& options);

// Overrides the options of a save.
void ApplyToSave(const OperatorOptions& wanted, SaveOptions& save);

}  // namespace belay

#endif  // BELAY_PIPELINE_OPERATOR_OPTIONS_H_
