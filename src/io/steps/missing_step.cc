#include "io/steps/missing_step.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "format/paths.h"
#include "io/files/posix_file.h"
#include "io/steps/commit.h"

namespace belay {
namespace {

constexpr size_t kMaxStepsToList = 10;
constexpr int kNewestToList = 5;

std::string WhatIsThere(const std::string& path) {
  if (Exists(path).value_or(false)) {
    return Cat("\"", JoinPath(path, IndexName()), "\" is missing");
  }
  const std::string dir = ParentOf(path);
  if (Exists(JoinPath(dir, IndexName())).value_or(false)) {
    return Cat("\"", dir, "\" is a step itself, which kLatestStep takes");
  }
  const std::optional<StepLabel> label = ParseStepName(NameOf(path));
  if (!label) return "nothing has this name";
  const StatusOr<std::vector<int64_t>> steps =
      CommittedSteps(dir, label->prefix);
  return steps.ok() ? StepsText(*steps) : std::string(steps.status().message());
}

}  // namespace

std::string StepsText(const std::vector<int64_t>& steps) {
  if (steps.empty()) return "there is none";
  if (steps.size() == 1) return absl::StrCat("there is ", steps[0]);
  if (steps.size() <= kMaxStepsToList) {
    return absl::StrCat("there are ", absl::StrJoin(steps, ", "));
  }
  return absl::StrCat(
      "there are ", steps.size(), " steps, the newest ",
      absl::StrJoin(steps.end() - kNewestToList, steps.end(), ", "));
}

Status NoSuchStep(std::string_view operation, const std::string& path) {
  return absl::NotFoundError(
      Cat(operation, " \"", path, "\": no such step; ", WhatIsThere(path)));
}

}  // namespace belay
