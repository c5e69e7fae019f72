#include "store/commit.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "store/paths.h"
#include "store/posix_file.h"

namespace belay {
namespace {

Status EnsureDirectory(const std::string& path, bool durable) {
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (exists) return absl::OkStatus();
  const Status made = MakeDirectory(path);
  // Another program may have been quicker.
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return durable ? SyncDirectory(ParentOf(path)) : absl::OkStatus();
}

// A crash while a step was replaced, where names cannot be swapped in one step,
// leaves the old one under another name.
Status TakeBackReplaced(const std::string& committed) {
  const std::string spare = ReplacedName(committed);
  BELAY_ASSIGN_OR_RETURN(const bool has_spare, Exists(spare));
  if (!has_spare) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const bool has_step, Exists(committed));
  return has_step ? RemoveTree(spare) : Rename(spare, committed);
}

// Two directories trade places in one step where the file system can do that.
Status RenameOrSwap(const std::string& from, const std::string& to) {
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(to));
  return exists ? Swap(from, to) : Rename(from, to);
}

Status CreateMarker(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(PosixFile marker,
                         PosixFile::Open(path, PosixFile::Mode::kCreate));
  return marker.Close();
}

}  // namespace

Status BeginStep(const std::string& run, int64_t step, bool overwrite,
                 bool durable, uint64_t nonce) {
  BELAY_RETURN_IF_ERROR(EnsureDirectory(run, durable));
  const std::string committed = JoinPath(run, StepName(step));
  BELAY_RETURN_IF_ERROR(TakeBackReplaced(committed));
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(committed));
  if (exists && !overwrite) {
    return absl::AlreadyExistsError(absl::StrFormat(
        "save \"%s\": the step is committed already; choose another number or "
        "set SaveOptions.overwrite",
        committed));
  }
  const std::string directory = JoinPath(run, InProgressName(step));
  BELAY_RETURN_IF_ERROR(RemoveTree(directory));
  BELAY_RETURN_IF_ERROR(MakeDirectory(directory));
  const Status marked = CreateMarker(JoinPath(directory, MarkerName(nonce)));
  // Nobody else would know whose it is.
  if (!marked.ok()) RemoveDebris(run, step);
  return marked;
}

Status CheckSharedDirectory(const std::string& run, int64_t step,
                            uint64_t nonce) {
  BELAY_ASSIGN_OR_RETURN(const bool ours, IsOurs(run, step, nonce));
  if (ours) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "save \"%s\": this rank does not see the directory that rank 0 made; all "
      "ranks need the same path on a shared file system",
      JoinPath(run, InProgressName(step))));
}

Status CommitStep(const std::string& run, int64_t step, bool durable,
                  uint64_t nonce) {
  const std::string from = JoinPath(run, InProgressName(step));
  const std::string to = JoinPath(run, StepName(step));
  BELAY_ASSIGN_OR_RETURN(const bool ours, IsOurs(run, step, nonce));
  if (!ours) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "commit \"%s\": another save of this step has taken the directory over",
        from));
  }
  BELAY_RETURN_IF_ERROR(RemoveTree(JoinPath(from, MarkerName(nonce))));
  if (durable) BELAY_RETURN_IF_ERROR(SyncDirectory(from));
  BELAY_RETURN_IF_ERROR(RenameOrSwap(from, to));
  if (!durable) return absl::OkStatus();
  const Status synced = SyncDirectory(run);
  if (!synced.ok()) UndoCommit(run, step).IgnoreError();
  return synced;
}

Status UndoCommit(const std::string& run, int64_t step) {
  return RenameOrSwap(JoinPath(run, StepName(step)),
                      JoinPath(run, InProgressName(step)));
}

StatusOr<bool> IsOurs(const std::string& run, int64_t step, uint64_t nonce) {
  return Exists(
      JoinPath(JoinPath(run, InProgressName(step)), MarkerName(nonce)));
}

void RemoveDebris(const std::string& run, int64_t step) {
  RemoveTree(JoinPath(run, InProgressName(step))).IgnoreError();
}

StatusOr<std::vector<int64_t>> CommittedSteps(const std::string& run) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         ListDirectory(run));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    if (const auto step = ParseStepName(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace belay
