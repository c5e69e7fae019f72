// The steps of a directory, of any series.

#ifndef BELAY_TOOLS_STEPS_H_
#define BELAY_TOOLS_STEPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/status.h"

namespace belay::tools {

struct StepDirectory {
  std::string path;
  std::string prefix;  // of its series
  int64_t step = 0;
};

// Returns the committed steps of a directory, by series and number.
// Errors: NotFound - no such directory, or no step in it.
StatusOr<std::vector<StepDirectory>> StepsIn(const std::string& path);

// Whether a step that cannot be read for this reason is damaged: another user,
// or another version, may read what is not.
bool IsDamage(const Status& failure);

// Returns the directory of that step in a directory of steps, and `path` itself
// if no step is given.
// Errors: NotFound - no such directory or step; InvalidArgument - steps of that
//   number in several series.
StatusOr<std::string> FindStep(const std::string& path,
                               std::optional<int64_t> step);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_STEPS_H_
