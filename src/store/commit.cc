#include "store/commit.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "store/paths.h"
#include "store/posix_file.h"

namespace belay {
namespace {

Status EnsureDirectory(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  return exists ? absl::OkStatus() : MakeDirectory(path);
}

// Two directories trade places in one step where the file system can do that.
Status RenameOrSwap(const std::string& from, const std::string& to) {
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(to));
  return exists ? Swap(from, to) : Rename(from, to);
}

}  // namespace

Status BeginStep(const std::string& run, int64_t step, bool overwrite,
                 uint64_t nonce) {
  BELAY_RETURN_IF_ERROR(EnsureDirectory(run));
  const std::string committed = JoinPath(run, StepName(step));
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
  BELAY_ASSIGN_OR_RETURN(PosixFile marker,
                         PosixFile::Open(JoinPath(directory, MarkerName(nonce)),
                                         PosixFile::Mode::kCreate));
  return marker.Close();
}

Status CheckSharedDirectory(const std::string& run, int64_t step,
                            uint64_t nonce) {
  const std::string directory = JoinPath(run, InProgressName(step));
  BELAY_ASSIGN_OR_RETURN(const bool exists,
                         Exists(JoinPath(directory, MarkerName(nonce))));
  if (exists) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "save \"%s\": this rank does not see the directory that rank 0 made; all "
      "ranks need the same path on a shared file system",
      directory));
}

Status CommitStep(const std::string& run, int64_t step, bool durable,
                  uint64_t nonce) {
  const std::string from = JoinPath(run, InProgressName(step));
  const std::string to = JoinPath(run, StepName(step));
  BELAY_RETURN_IF_ERROR(RemoveTree(JoinPath(from, MarkerName(nonce))));
  if (durable) BELAY_RETURN_IF_ERROR(SyncDirectory(from));
  BELAY_RETURN_IF_ERROR(RenameOrSwap(from, to));
  if (!durable) return absl::OkStatus();
  const Status synced = SyncDirectory(run);
  if (!synced.ok()) UndoCommit(run, step);
  return synced;
}

void UndoCommit(const std::string& run, int64_t step) {
  RenameOrSwap(JoinPath(run, StepName(step)),
               JoinPath(run, InProgressName(step)))
      .IgnoreError();
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
