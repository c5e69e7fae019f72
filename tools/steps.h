// The steps of a directory, of all series.

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

// True if a step that cannot be read because of this error is damaged.
// Otherwise another user or another version may be able to read it.
bool IsDamage(const Status& failure);

// Returns the directory of that step in a directory of steps, or `path` itself
// if no step is given.
// Errors: NotFound - no such directory or step; InvalidArgument - several
//   series have a step with that number.
StatusOr<std::string> FindStep(const std::string& path,
                               std::optional<int64_t> step);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_STEPS_H_
