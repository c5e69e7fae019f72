#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "belay/checkpoint_reader.h"
#include "store/commit.h"
#include "store/paths.h"
#include "store/posix_file.h"

namespace belay {
namespace {

constexpr char kInProgress[] = ".inprogress";

// Says what a directory without a committed step holds instead.
Status NothingCommitted(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         ListDirectory(path));
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, kInProgress)) continue;
    return absl::NotFoundError(
        absl::StrFormat("open \"%s\": no step is committed; \"%s\" is a save "
                        "that is running or was killed",
                        path, name));
  }
  return absl::NotFoundError(absl::StrFormat(
      "open \"%s\": neither a committed step nor a directory of steps", path));
}

}  // namespace

StatusOr<std::string> ResolveStep(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  if (absl::EndsWith(name, kInProgress)) {
    return absl::NotFoundError(
        absl::StrFormat("open \"%s\": not committed; it is a save that is "
                        "running or was killed",
                        name));
  }
  const StatusOr<bool> is_step = Exists(JoinPath(name, IndexName()));
  if (is_step.ok() && *is_step) return name;
  const StatusOr<std::vector<int64_t>> steps = CommittedSteps(name);
  if (absl::IsInvalidArgument(steps.status())) {
    return absl::NotFoundError(absl::StrFormat(
        "open \"%s\": a file; need a step directory or a directory of steps",
        path));
  }
  BELAY_RETURN_IF_ERROR(steps.status());
  if (steps->empty()) return NothingCommitted(name);
  return JoinPath(name, StepName(steps->back()));
}

}  // namespace belay
