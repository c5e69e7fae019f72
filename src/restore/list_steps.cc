#include <string>
#include <string_view>
#include <vector>

#include "base/status_macros.h"
#include "belay/save_restore.h"
#include "format/paths.h"
#include "io/steps/commit.h"

namespace belay {

std::string StepPath(const std::string& dir, int64_t step,
                     std::string_view prefix) {
  return JoinPath(dir, StepName(step, prefix));
}

StatusOr<std::vector<int64_t>> ListSteps(const std::string& dir,
                                         std::string_view prefix) {
  BELAY_RETURN_IF_ERROR(CheckIsNoStep("list steps in", dir));
  return CommittedSteps(dir, prefix);
}

}  // namespace belay
