#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "format/paths.h"
#include "io/files/posix_file.h"
#include "io/steps/belay_files.h"
#include "io/steps/commit.h"
#include "io/steps/missing_step.h"

namespace belay {
namespace {

// Whether a directory of that name and content was a step.
bool WasStep(const std::string& path, const std::vector<std::string>& names) {
  return ParseStepName(NameOf(path)).has_value() ||
         std::any_of(names.begin(), names.end(), IsDataFile);
}

// Says what a directory without a committed step holds instead.
Status NothingCommitted(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         ListDirectory(path));
  for (const std::string& name : names) {
    if (!IsInProgress(name)) continue;
    return absl::NotFoundError(
        absl::StrFormat("open \"%s\": no step is committed; \"%s\" is a save "
                        "that is running or was killed",
                        path, name));
  }
  if (WasStep(path, names)) return NoIndex("open", path);
  return absl::NotFoundError(absl::StrFormat(
      "open \"%s\": neither a committed step nor a directory of steps", path));
}

// The last step of the only series. `steps` is ascending and not empty.
StatusOr<StepLabel> Newest(const std::vector<StepLabel>& steps,
                           const std::string& path) {
  if (steps.front().prefix == steps.back().prefix) return steps.back();
  return absl::NotFoundError(absl::StrFormat(
      "open \"%s\": several series of steps, the first \"%s\" and the last "
      "\"%s\"; name one of the steps",
      path, steps.front().prefix, steps.back().prefix));
}

}  // namespace

StatusOr<std::string> ResolveStep(const std::string& path) {
  const std::string name = WithoutSlashes(path);
  if (IsInProgress(name)) {
    return absl::NotFoundError(
        absl::StrFormat("open \"%s\": not committed; it is a save that is "
                        "running or was killed",
                        name));
  }
  const StatusOr<bool> is_step = IsStep(name);
  if (is_step.ok() && *is_step) return name;
  // Another series must not stand in for the usual one because a listing has
  // missed the only step of it.
  const StatusOr<std::vector<int64_t>> usual =
      CommittedSteps(name, kStepPrefix);
  if (usual.ok() && !usual->empty()) return StepPath(name, usual->back());
  const StatusOr<std::vector<StepLabel>> steps = CommittedLabels(name);
  if (absl::IsInvalidArgument(steps.status())) {
    return absl::NotFoundError(
        absl::StrFormat("open \"%s\": not a directory; need a step directory "
                        "or a directory of steps",
                        path));
  }
  BELAY_RETURN_IF_ERROR(steps.status());
  if (steps->empty()) return NothingCommitted(name);
  BELAY_ASSIGN_OR_RETURN(const StepLabel newest, Newest(*steps, name));
  return StepPath(name, newest.step, newest.prefix);
}

}  // namespace belay
