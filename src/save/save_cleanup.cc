// What follows if a save fails: its reason, and what is removed.
#include <string>

#include "base/log.h"
#include "base/status_macros.h"
#include "io/steps/commit.h"
#include "io/steps/saved_twice.h"
#include "save/save_stages.h"

namespace belay {
namespace {

// Whether this error tells of another save, or that its directory is gone.
bool TellsOfDirectory(const Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
}

// Why a save failed, if another one has taken its directory over or put files
// into it, or that directory is gone and this is what was noticed. Rank 0 only.
Status FindRival(const SaveTarget& target, const StepInProgress& step,
                 const Status& failure) {
  if (!step.has_directory || step.is_owner) return absl::OkStatus();
  const Status ours = CheckOurs("save", target.path, step.nonce);
  // It was empty at first.
  if (ours.ok() && absl::IsAlreadyExists(failure) && !step.program_failed) {
    return SavedTwice("save", target.path, "has put files into its directory");
  }
  const bool explains = absl::IsFailedPrecondition(ours) ||
                        (absl::IsNotFound(ours) && absl::IsNotFound(failure));
  return explains ? ours : absl::OkStatus();
}

}  // namespace

Status ReasonOf(const SaveFrame& frame, const StepInProgress& step,
                const Status& failure) {
  const Status rival = OnRoot(
      frame.context, [&] { return FindRival(frame.target, step, failure); });
  return TellsOfDirectory(rival) ? rival : failure;
}

void CleanUp(const SaveFrame& frame, const StepInProgress& step,
             const Status& status) {
  const std::string& path = frame.target.path;
  if (!frame.context.is_root()) return;
  // What was there before this save is not ours.
  if (!step.began) return;
  // No rank may believe in a step that another one does not. Under the
  // temporary name lies the old step of a commit that stands.
  if (!status.ok() && step.committed) {
    const Status undone = UndoCommit(path, step.nonce);
    if (!undone.ok()) {
      // The ranks have failed to agree, and have no other error in common.
      Log(LogLevel::kError,
          std::string(AfterUndo(path, status, undone).message()));
      return;
    }
  }
  // Another save of this step may have taken the directory over.
  if (!step.is_owner && !TakeStep(path, step.nonce).ok()) return;
  RemoveDebris(path, step.nonce);
}

}  // namespace belay
