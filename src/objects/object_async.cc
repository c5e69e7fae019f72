// Saving the objects of a Checkpoint in the background.
#include <mpi.h>

#include <string>
#include <utility>

#include "async/background_save.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/async_saver.h"
#include "belay/checkpoint.h"
#include "objects/save_step.h"
#include "objects/tracked_objects.h"
#include "pipeline/stages.h"

namespace belay {

namespace {

// The communicator of the objects has to be one of the same ranks. Equal on all
// ranks of a sound program.
Status CheckSameRanks(const Comm& one, const Comm& other) {
  int result = MPI_UNEQUAL;
  MPI_Comm_compare(one.raw(), other.raw(), &result);
  if (result == MPI_IDENT || result == MPI_CONGRUENT) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "save \"AsyncSaver\": the Checkpoint has a communicator of other ranks, "
      "or "
      "in another order");
}

}  // namespace

StatusOr<PendingSave> AsyncSaver::Save(Checkpoint& checkpoint,
                                       const std::string& dir,
                                       const SaveOptions& options) {
  if (saver_ == nullptr) return Wait().status();  // says why
  BELAY_ASSIGN_OR_RETURN_AGREED(std::optional<SaveResult> finished,
                                saver_->WaitBeforeNext());
  BELAY_RETURN_IF_AGREED(CheckMoved(checkpoint.objects_.get(), "save"));
  TrackedObjects& objects = *checkpoint.objects_;
  BELAY_RETURN_IF_AGREED(CheckComm(*objects.comm, "save", dir));
  BELAY_RETURN_IF_AGREED(CheckSameRanks(*objects.comm, saver_->comm()));
  BELAY_ASSIGN_OR_RETURN_AGREED(const NextStep next,
                                PassNewerSteps(objects, dir, options));
  StatusOr<PendingSave> pending;
  const Status status = SaveStepBy(
      objects, dir.empty() ? "" : StepPath(dir, next.passed + 1), options,
      nullptr, [&](const SaveJob& job, const SaveOptions& with_cache) {
        pending = saver_->Begin(job, with_cache, EndOfStep(objects, next));
        return pending.status();
      });
  if (!status.ok()) {
    objects.counter = next.restored;
    saver_->Keep(std::move(finished));
    return status;
  }
  pending->finished = std::move(finished);
  const std::string warning = NumberWarning(dir, next);
  if (!warning.empty()) {
    pending->note += Cat(pending->note.empty() ? "" : "; ", warning);
  }
  return pending;
}

}  // namespace belay
