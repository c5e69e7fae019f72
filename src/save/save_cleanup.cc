// What follows if a save fails: its reason, and what is removed.
#include <string>

#include "base/status_macros.h"
#include "io/steps/commit.h"
#include "save/save_stages.h"

namespace belay {
namespace {

// Why a save failed, if another one has taken its directory over. Rank 0 only.
Status FindRival(const SaveTarget& target, const StepInProgress& step) {
  if (!step.has_directory || step.is_owner) return absl::OkStatus();
  const Status ours = CheckOurs("save", target.path, step.nonce);
  return absl::IsFailedPrecondition(ours) ? ours : absl::OkStatus();
}

}  // namespace

Status ReasonOf(const SaveFrame& frame, const StepInProgress& step,
                const Status& failure) {
  const Status rival =
      OnRoot(frame.context, [&] { return FindRival(frame.target, step); });
  return absl::IsFailedPrecondition(rival) ? rival : failure;
}

void CleanUp(const SaveFrame& frame, const StepInProgress& step,
             const Status& status) {
  const std::string& path = frame.target.path;
  if (!frame.context.is_root()) return;
  // What was there before this save is not ours.
  if (!step.began) return;
  // No rank may believe in a step that another one does not. Under the
  // temporary name lies the old step of a commit that stands.
  if (!status.ok() && step.committed && !UndoCommit(path, step.nonce).ok()) {
    return;
  }
  // Another save of this step may have taken the directory over.
  if (!step.is_owner && !TakeStep(path, step.nonce).ok()) return;
  RemoveDebris(path, step.nonce);
}

}  // namespace belay
