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
#include "plan/policy.h"
#include "save/save_stages.h"
#include "save/transfer_choice.h"

namespace belay {
namespace {

// Logs it, once for each set of keys.
void WarnOfKeysOfSome(const SaveFrame& frame, const std::string& text,
                      CachedPlan& cache) {
  if (text.empty() || !cache.warned_of.insert(text).second) return;
  Log(LogLevel::kWarning,
      Cat("save \"", ParentOf(frame.target.path), "\": ", text,
          "; values that only some ranks have are stored from those"));
}

// Makes the plan of this save: that of the last one, or a new one. Lets shards
// that are rows stand at their places, in `blocks` if they have ids.
// Collective; agreed.
Agreed<ReusablePlan> MakePlan(const SaveFrame& frame, const SaveJob& job,
                              std::optional<ReusablePlan> last,
                              CachedPlan& cache, ListedSave& listed,
                              std::vector<IdBlock>& blocks) {
  if (listed.reuse) {
    ++last->num_reuses;
    BELAY_ASSIGN_OR_RETURN_AGREED(blocks,
                                  TakePlaces(frame, *last, listed.shards));
    return *std::move(last);
  }
  frame.stages.Enter("plan");
  // Ranks whose plan holds have found no forms again.
  const bool fits = last && last->fingerprint == listed.fingerprint;
  ReusablePlan plan{.fingerprint = listed.fingerprint,
                    .forms = std::move(fits ? last->forms : listed.forms)};
  last.reset();
  std::vector<KeyRows> keys = job.rows;  // rank 0 only
  BELAY_RETURN_IF_AGREED(PlaceRowsTogether(frame, listed.shards, plan, keys));
  BELAY_ASSIGN_OR_RETURN_AGREED(blocks, TakePlaces(frame, plan, listed.shards));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      plan.planned,
      PlanTogether(frame.context, ParentOf(frame.target.path),
                   {.node = 0,
                    .shards = DescribeShards(listed.shards, plan.forms,
                                             listed.on_all_ranks),
                    .values = listed.listing.values,
                    .job = JobOf(listed.shards)},
                   frame.options, cache.sent_lists));
  WarnOfKeysOfSome(frame, plan.planned.keys_of_some, cache);
  SavedCheckpoint& saved = plan.planned.saved;
  saved.rows = RowsOfArrays(keys, saved.arrays);
  return plan;
}

// The stages that change what is on disk. Collective; agreed.
Agreed<WrittenData> WriteStep(const SaveFrame& frame, const SaveJob& job,
                              const ListedSave& listed, ReusablePlan& plan,
                              StepInProgress& step) {
  IndexCreation index(frame, job.graph, listed.reuse, plan);
  BELAY_ASSIGN_OR_RETURN_AGREED(const ReservedSave reserved,
                                Reserve(frame, listed, plan, index, step));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      WrittenData written,
      WriteData(frame, reserved, listed.shards, plan, index, job.progress));
  BELAY_RETURN_IF_AGREED(VerifyData(frame, listed.shards, plan, step, written));
  BELAY_RETURN_IF_AGREED(
      CommitSave(frame, reserved, written, plan, index, step));
  return written;
}

}  // namespace

Agreed<PreparedSave> PrepareSave(const SaveFrame& frame, const SaveJob& job,
                                 CachedPlan& cache) {
  PreparedSave prepared;
  BELAY_ASSIGN_OR_RETURN_AGREED(prepared.listed,
                                ListSave(frame, job, cache.plan));
  // It is there again when this save has succeeded.
  std::optional<ReusablePlan> last = std::exchange(cache.plan, std::nullopt);
  if (prepared.listed.replicas_differ) {
    return NameDifferentReplicas(frame, last->planned.replicas,
                                 prepared.listed.shards, /*is_reused=*/true)
        .error();
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(prepared.plan,
                                MakePlan(frame, job, std::move(last), cache,
                                         prepared.listed, prepared.blocks));
  // For the next plan, of which there is none.
  if (frame.options.cache == nullptr) cache.sent_lists = {};
  if (!prepared.listed.reuse) {
    BELAY_RETURN_IF_AGREED(CompareReplicas(
        frame, prepared.plan.planned.replicas, prepared.listed.shards));
  }
  return prepared;
}

Agreed<SaveResult> FinishSave(const SaveFrame& frame, const SaveJob& job,
                              PreparedSave prepared, CachedPlan& cache) {
  StepInProgress step;
  Agreed<WrittenData> written =
      WriteStep(frame, job, prepared.listed, prepared.plan, step);
  BELAY_RETURN_IF_AGREED(EndStep(frame, step, written.ended(), job.at_files));
  const bool reuse = prepared.listed.reuse;
  KeepListing(std::move(prepared.listed), prepared.plan);
  return EndSave(frame, reuse, std::move(prepared.plan), *written, cache);
}

Agreed<> EndStep(const SaveFrame& frame, const StepInProgress& step,
                 Agreed<> ended, bool* at_files) {
  if (!ended.ok()) ended = ReasonOf(frame, step, ended.status());
  if (at_files != nullptr) *at_files = !step.program_failed;
  CleanUp(frame, step, ended.status());
  return ended;
}

SaveResult EndSave(const SaveFrame& frame, bool reuse, ReusablePlan plan,
                   WrittenData& written, CachedPlan& cache) {
  SaveResult result = Report(frame, reuse, plan.planned, written);
  // How long files with filters are is another matter each time, and so is what
  // a policy does that does not say what its result depends on.
  if (frame.options.cache != nullptr && !plan.planned.has_filters &&
      VouchesForItself(frame.options.sharding_policy)) {
    cache.plan = std::move(plan);
  }
  return result;
}

Agreed<SaveResult> SaveAt(const Comm& comm, const SaveJob& job,
                          const SaveOptions& given) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "save", ParentOf(job.path)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const SaveOptions options,
                                WithOperatorTransfer(comm, job.path, given));
  PlanCache own;
  CommContext context{comm, Deadline(comm, options.deadline_seconds,
                                     absl::StrFormat("save \"%s\"", job.path))};
  context.messages = job.messages;
  context.agreement_bytes = job.agreement_bytes;
  Stages stages(context, job.stages);
  const SaveTarget target{.path = WithoutSlashes(job.path),
                          .step = job.step,
                          .is_managed = job.at_files != nullptr};
  const SaveFrame frame{context, stages, target, options};
  CachedPlan& cache = PlanOf(options.cache != nullptr ? *options.cache : own);
  Agreed<SaveResult> result = [&]() -> Agreed<SaveResult> {
    BELAY_ASSIGN_OR_RETURN_AGREED(PreparedSave prepared,
                                  PrepareSave(frame, job, cache));
    return FinishSave(frame, job, std::move(prepared), cache);
  }();
  LogResult(context, result);
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
