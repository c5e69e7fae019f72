#include "io/steps/missing_step.h"

#include <algorithm>
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
constexpr std::string_view kUseEarlier = "; use an earlier step, such as ";
constexpr std::string_view kNoEarlier = "; no earlier step is there";

std::string WhatIsThere(const std::string& path) {
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
  if (steps.empty()) return "there are no steps";
  if (steps.size() == 1) return absl::StrCat("the only step is ", steps[0]);
  if (steps.size() <= kMaxStepsToList) {
    return absl::StrCat("the steps are ", absl::StrJoin(steps, ", "));
  }
  return absl::StrCat(
      "there are ", steps.size(), " steps, the newest ",
      absl::StrJoin(steps.end() - kNewestToList, steps.end(), ", "));
}

Status NoIndex(std::string_view operation, const std::string& path) {
  return absl::NotFoundError(Cat(operation, " \"", path, "\": the step has no ",
                                 IndexName(),
                                 "; parts of it were deleted, or not copied"));
}

Status NoSuchStep(std::string_view operation, const std::string& path) {
  if (Exists(path).value_or(false)) return NoIndex(operation, path);
  return absl::NotFoundError(
      Cat(operation, " \"", path, "\": no such step; ", WhatIsThere(path)));
}

std::string EarlierStepHint(const std::string& path) {
  const std::optional<StepLabel> label = ParseStepName(NameOf(path));
  if (!label) return "";
  const StatusOr<std::vector<int64_t>> steps =
      CommittedSteps(ParentOf(path), label->prefix);
  if (!steps.ok()) return "";
  const auto end = std::ranges::lower_bound(*steps, label->step);
  if (end == steps->begin()) return std::string(kNoEarlier);
  return Cat(kUseEarlier, *(end - 1));
}

Status WithEarlierStep(const Status& status, const std::string& path) {
  const bool has_hint = WithoutEarlierStep(status) != status;
  if (!absl::IsDataLoss(status) || has_hint) return status;
  return Status(status.code(), Cat(status.message(), EarlierStepHint(path)));
}

Status WithoutEarlierStep(const Status& status) {
  std::string message(status.message());
  for (const std::string_view hint : {kUseEarlier, kNoEarlier}) {
    const size_t at = message.rfind(hint);
    if (at == message.npos) continue;
    const size_t end =
        message.find_first_not_of("0123456789", at + hint.size());
    message.erase(at, end == message.npos ? end : end - at);
  }
  return Status(status.code(), message);
}

}  // namespace belay
