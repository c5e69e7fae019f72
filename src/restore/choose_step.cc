// Finds the step that a restore reads: the one that is named, or the newest.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "format/paths.h"
#include "restore/restore_stages.h"
#include "storage/commit.h"
#include "storage/posix_file.h"

namespace belay {

StatusOr<RestoreResult> Restore(const Comm& comm, const ChosenStep& chosen,
                                const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", chosen.path_));
  Status status;
  if (chosen.identity_ == 0) {
    status = absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": no step was chosen: call ChooseStep", chosen.path_));
  }
  return RestoreState(comm,
                      {.path = chosen.path_,
                       .step = chosen.step_,
                       .identity = chosen.identity_},
                      status, state, options);
}

StatusOr<ChosenStep> ChooseStep(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const StatusOr<RestoreSource> source = SourceOf(dir, step);
  const RestoreSource wanted = source.value_or(RestoreSource{.path = dir});
  RestoreFrame frame(comm, wanted.path, options);
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, wanted, source.status()));
  BELAY_ASSIGN_OR_RETURN_AGREED(OpenedStep opened, OpenStep(frame, wanted));
  BELAY_RETURN_IF_AGREED(PinRestore(frame, opened.source));
  ChosenStep chosen;
  chosen.path_ = opened.source.path;
  chosen.step_ = opened.source.step;
  chosen.identity_ = opened.source.identity;
  return chosen;
}

// --- Resolve step ---

namespace {

// Returns true if a directory of that name and content was a step.
bool WasStep(const std::string& path, const std::vector<std::string>& names) {
  return ParseStepName(GetLastName(path)).has_value() ||
         std::any_of(names.begin(), names.end(), IsDataFile);
}

// Describes a directory without a committed step.
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

// Returns the last step of the only series. `steps` ascends and is not empty.
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
  // Another series must not replace the usual one because a listing has missed
  // its only step.
  const StatusOr<std::vector<int64_t>> usual =
      CommittedSteps(name, kStepPrefix);
  if (usual.ok() && !usual->empty()) return StepPath(name, usual->back());
  const StatusOr<std::vector<StepLabel>> steps = CommittedLabels(name);
  if (absl::IsInvalidArgument(steps.status())) {
    return absl::NotFoundError(
        absl::StrFormat("open \"%s\": not a directory; need a step directory "
                        "or a directory of steps (Checkpoint::Restore reads "
                        "HDF5 files of other programs)",
                        path));
  }
  BELAY_RETURN_IF_ERROR(steps.status());
  if (steps->empty()) return NothingCommitted(name);
  BELAY_ASSIGN_OR_RETURN(const StepLabel newest, Newest(*steps, name));
  return StepPath(name, newest.step, newest.prefix);
}

// --- List steps ---

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
