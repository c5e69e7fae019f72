#include "async/flush.h"

#include <chrono>
#include <string_view>
#include <thread>

#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace {

Status GiveUp(const FlushJob& job, FlushProgress& progress,
              std::string_view why) {
  progress.has_given_up = true;
  return absl::CancelledError(
      Cat("save \"", job.path, "\" in the background: ", why));
}

// Makes a pass, together with whoever waits for it.
Status Make(FlushPass& pass, const FlushJob& job, FlushProgress& progress) {
  pass.Begin(job);
  while (!pass.IsDone(job)) {
    const FlushPass::Step step = pass.MoveOne(job, progress);
    if (step == FlushPass::Step::kMoved || pass.IsDone(job)) continue;
    if (step == FlushPass::Step::kTooFast) job.node->Tick();
    pass.Rest(job);
  }
  return pass.result();
}

// Waits until all ranks of the node have written.
Status WaitForNode(const FlushJob& job, FlushProgress& progress) {
  constexpr std::chrono::milliseconds kNap{1};
  while (!job.node->AllReached(job.number)) {
    BELAY_RETURN_IF_ERROR(CheckCancelled(job, progress));
    if (job.node->AnyFailed(job.number)) {
      return GiveUp(job, progress, "another rank of this node has failed");
    }
    std::this_thread::sleep_for(kNap);
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckCancelled(const FlushJob& job, FlushProgress& progress) {
  if (!progress.is_cancelled) return absl::OkStatus();
  return GiveUp(job, progress, "it was given up");
}

Status WriteSnapshot(FlushJob& job, FlushProgress& progress) {
  const Status status = Make(progress.writing, job, progress);
  job.node->Tell(status.ok() ? job.number : -job.number);
  BELAY_RETURN_IF_ERROR(status);
  if (!job.synced.empty()) {
    BELAY_RETURN_IF_ERROR(WaitForNode(job, progress));
    BELAY_RETURN_IF_ERROR(job.synced.SyncAll([&] { job.node->Tick(); }));
  }
  progress.seconds = progress.writing.seconds();
  return absl::OkStatus();
}

Status ReadBackSnapshot(const FlushJob& job, FlushProgress& progress) {
  return Make(progress.comparing, job, progress);
}

bool CanHelpFlush(const FlushJob& job, const FlushProgress& progress) {
  return progress.writing.HasPiece(job) || progress.comparing.HasPiece(job);
}

bool HelpFlush(const FlushJob& job, FlushProgress& progress) {
  return progress.writing.MoveOne(job, progress) == FlushPass::Step::kMoved ||
         progress.comparing.MoveOne(job, progress) == FlushPass::Step::kMoved;
}

}  // namespace belay
