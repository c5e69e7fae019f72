// A save, from its values to the committed step.
#include "save/save.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/save_restore.h"
#include "core/agreed.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "pipeline/listing.h"
#include "pipeline/result_text.h"
#include "save/save_stages.h"
#include "save/transfer_choice.h"

namespace belay {
namespace {

// Warns about keys that only some ranks have, once for each set of keys.
void WarnOfKeysOfSome(const SaveFrame& frame, const std::string& text,
                      CachedPlan& cache) {
  if (text.empty() || !cache.warned_of.insert(text).second) return;
  Log(LogLevel::kWarning,
      Cat("save \"", GetParent(frame.target.path), "\": ", text,
          "; values that only some ranks have are stored from those"));
}

// Completes a plan that is not reused. Collective; agreed.
Agreed<> MakePlan(SaveFrame& frame, const SaveJob& job, CachedPlan& cache,
                  PreparedSave& save) {
  frame.stages.Enter("plan");
  std::vector<KeyRows> keys = job.rows;  // rank 0 only
  BELAY_RETURN_IF_AGREED(PlaceRowsTogether(frame, save, keys));
  BELAY_RETURN_IF_AGREED(TakePlaces(frame, save));
  const ListedShards& listed = save.listed;
  BELAY_RETURN_IF_AGREED(PlanTogether(
      frame.context, GetParent(frame.target.path),
      {.node = 0,
       .shards =
           DescribeShards(listed.shards, save.plan.forms, listed.on_all_ranks),
       .values = listed.values,
       .job = FindJobName(listed.shards)},
      frame.options, cache.sent_lists, save.plan));
  WarnOfKeysOfSome(frame, save.plan.keys_of_some, cache);
  SavedCheckpoint& saved = save.plan.saved;
  saved.rows = FindStoredRows(keys, saved.arrays);
  return {};
}

// Runs the stages that change files on disk. Collective; agreed.
Agreed<WrittenData> WriteStep(SaveFrame& frame, const SaveJob& job,
                              PreparedSave& save, StepInProgress& step) {
  IndexCreation index(frame, job.graph, save);
  BELAY_RETURN_IF_AGREED(Reserve(frame, save, index, step));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      WrittenData written, WriteData(frame, save, step, index, job.progress));
  BELAY_RETURN_IF_AGREED(VerifyData(frame, save, step, written));
  BELAY_RETURN_IF_AGREED(CommitSave(frame, save, written, index, step));
  return written;
}

}  // namespace

Agreed<PreparedSave> PrepareSave(SaveFrame& frame, const SaveJob& job,
                                 CachedPlan& cache) {
  BELAY_ASSIGN_OR_RETURN_AGREED(PreparedSave save, ListSave(frame, job, cache));
  if (save.reuse) {
    ++save.plan.num_reuses;
    BELAY_RETURN_IF_AGREED(TakePlaces(frame, save));
  } else {
    BELAY_RETURN_IF_AGREED(MakePlan(frame, job, cache, save));
  }
  // Without a cache there is no next plan.
  if (frame.options.cache == nullptr) cache.sent_lists = {};
  if (!save.reuse) BELAY_RETURN_IF_AGREED(CompareReplicas(frame, save));
  return save;
}

void ReleaseShards(PreparedSave& save) {
  save.plan.listing.reset();
  if (save.listed.moving) save.plan.listing = std::move(save.listed);
  save.listed = {};
  save.listing = {};
  save.blocks.clear();
}

Agreed<SaveResult> FinishSave(SaveFrame& frame, const SaveJob& job,
                              PreparedSave save, CachedPlan& cache) {
  StepInProgress step(frame);
  Agreed<WrittenData> written = WriteStep(frame, job, save, step);
  BELAY_RETURN_IF_AGREED(EndStep(frame, step, written.ended(), job.at_files));
  ReleaseShards(save);
  return EndSave(frame, save.reuse, std::move(save.plan), *written, cache);
}

Agreed<SaveResult> SaveAt(const Comm& comm, const SaveJob& job,
                          const SaveOptions& given) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "save", GetParent(job.path)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const SaveOptions options,
                                WithOperatorTransfer(comm, job.path, given));
  PlanCache own;
  SaveFrame frame(comm,
                  Deadline(comm, options.deadline_seconds,
                           absl::StrFormat("save \"%s\"", job.path)),
                  SaveTarget::Of(job), options, job.before);
  CachedPlan& cache = PlanOf(options.cache != nullptr ? *options.cache : own);
  Agreed<SaveResult> result = [&]() -> Agreed<SaveResult> {
    BELAY_ASSIGN_OR_RETURN_AGREED(PreparedSave save,
                                  PrepareSave(frame, job, cache));
    return FinishSave(frame, job, std::move(save), cache);
  }();
  LogResult(frame.context, result);
  return result;
}

StatusOr<SaveResult> Save(const Comm& comm, const std::string& dir,
                          int64_t step, const State& state,
                          const SaveOptions& options) {
  return SaveAt(comm,
                {.path = dir.empty() ? "" : StepPath(dir, step),
                 .step = step,
                 .state = state},
                options);
}

}  // namespace belay
