// A restore, from the open step to the values of the program.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "belay/save_restore.h"
#include "io/steps/missing_step.h"
#include "mpi/rank_suffix.h"
#include "pipeline/listing.h"
#include "pipeline/result_text.h"
#include "plan/restore/shared_targets.h"
#include "restore/compare_together.h"
#include "restore/restore_stages.h"

namespace belay {
namespace {

// Compares what was read with its checksums. Collective.
StatusOr<BlockCounts> Verify(RestoreFrame& frame, const OpenedStep& opened,
                             const PlannedReads& planned, ReadData& data) {
  if (!planned.checks) return BlockCounts{};
  frame.stages.Enter("verify");
  return CompareTogether(
      frame.context, absl::StrFormat("restore \"%s\"", planned.path),
      {opened.saved, planned.plan, data.registers, data.covered});
}

// Plans, reads and verifies what these shards want, and agrees on `mine`.
// `no_shared_memory` as in ReadPlanned. Collective; agreed.
StatusOr<RestoreResult> ReadShards(RestoreFrame& frame,
                                   const OpenedStep& opened,
                                   const std::vector<Shard>& shards,
                                   const std::vector<Tolerance>& tolerances,
                                   const Status& mine,
                                   std::string& no_shared_memory) {
  if (opened.source.kind == RestoreSource::Kind::kFlatFile) {
    return ReadFlat(frame, opened, shards, tolerances, mine);
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      PlannedReads planned,
      PlanReads(frame, opened, shards, tolerances, no_shared_memory));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ReadData data, ReadPlanned(frame, opened, shards, tolerances, mine,
                                 planned, no_shared_memory));
  BELAY_ASSIGN_OR_RETURN_AGREED(const BlockCounts blocks,
                                Verify(frame, opened, planned, data));
  RestoreResult result{.path = planned.path,
                       .step = planned.step,
                       .num_arrays = planned.num_arrays,
                       .blocks_verified = blocks.verified,
                       .blocks_partial = blocks.partial,
                       .conversions = std::move(planned.conversions)};
  result.read_sharing = planned.sharing;
  result.sharing_note = std::move(planned.note);
  result.counters.bytes = data.counts.bytes;
  result.counters.delivered_bytes = data.counts.delivered_bytes;
  result.counters.io_calls = data.counts.io_calls;
  result.counters.staged_bytes = data.counts.staged_bytes;
  result.counters.files = std::ssize(planned.file_names);
  BELAY_RETURN_IF_AGREED(
      TellLostValues(frame, {shards, planned.forms, data.losses}, result));
  return result;
}

// Adds what was read in one round to what was read before. Local.
void AddResult(RestoreResult round, RestoreResult& sum) {
  sum.path = std::move(round.path);
  sum.step = round.step;
  sum.num_arrays += round.num_arrays;
  sum.warnings.insert(sum.warnings.end(), round.warnings.begin(),
                      round.warnings.end());
  sum.blocks_verified += round.blocks_verified;
  sum.blocks_partial += round.blocks_partial;
  std::vector<Conversion>& all = sum.conversions;
  all.insert(all.end(), round.conversions.begin(), round.conversions.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  sum.counters.bytes += round.counters.bytes;
  sum.counters.io_calls += round.counters.io_calls;
  sum.counters.delivered_bytes += round.counters.delivered_bytes;
  sum.counters.files = round.counters.files;
  // Reading once in any round is what is told, and why.
  const bool reads_once = sum.read_sharing == ReadSharing::kOnce;
  if (sum.sharing_note.empty() || (!reads_once && round.num_arrays > 0)) {
    sum.read_sharing = round.read_sharing;
    sum.sharing_note = std::move(round.sharing_note);
  }
  sum.counters.staged_bytes =
      std::max(sum.counters.staged_bytes, round.counters.staged_bytes);
}

// All stages from list on. Collective; agreed.
StatusOr<RestoreResult> RunStages(RestoreFrame& frame, const OpenedStep& opened,
                                  StatusOr<ValuesToRead> values) {
  BELAY_ASSIGN_OR_RETURN_AGREED(ListedRestore listed,
                                ListTogether(frame, opened, std::move(values)));
  RestoreResult result = std::move(listed.report);
  result.conversions = listed.computed_conversions;
  std::string no_shared_memory;  // what one round finds out counts for all
  for (bool more = true; more;) {
    std::vector<Shard> shards =
        ListShards(std::move(listed.listing.shards), frame.context.rank());
    const StatusOr<std::vector<SharedTarget>> shared = SetApart(shards);
    Status mine = listed.status;
    mine.Update(shared.status());
    StatusOr<RestoreResult> round =
        ReadShards(frame, opened, shards, listed.listing.tolerances, mine,
                   no_shared_memory);
    Status together;
    if (round.ok()) {
      together = PutTogether(
          *shared, absl::StrFormat("restore \"%s\"", round->path), shards);
    }
    BELAY_RETURN_IF_AGREED(
        CheckUnchanged(frame, opened, round.status(), together));
    AddResult(*std::move(round), result);
    BELAY_ASSIGN_OR_RETURN_AGREED(
        more, ReceiveTogether(frame, result.path, shards, listed));
  }
  result.warnings.insert(result.warnings.end(),
                         listed.computed_warnings.begin(),
                         listed.computed_warnings.end());
  result.counters.peak_memory_bytes = PeakMemoryBytes();
  result.counters.stages = frame.stages.Finish();
  BELAY_RETURN_IF_AGREED(CombineCounters(frame.context, result.counters));
  return result;
}

// Says what to use in place of a damaged step. Collective; agreed.
Status NameEarlierStep(RestoreFrame& frame, const OpenedStep& opened,
                       const Status& damage) {
  const StatusOr<std::string> hint =
      FromRoot(frame.context, [&]() -> StatusOr<std::string> {
        return EarlierStepHint(opened.source.path);
      });
  return hint.ok() ? InsertBeforeRank(damage, *hint) : damage;
}

// What is wrong with a State. A layout of other ranks comes first: it may be
// the cause of memory that does not fit. Local.
Status CheckState(const RestoreFrame& frame, const State& state) {
  Status status = CheckLayouts(state.shards(), frame.context.size());
  status.Update(state.status());
  return status;
}

// A State that is made anew is only looked at then.
Status StatusBefore(const RestoreFrame& frame, const State& state) {
  return frame.options.on_open != nullptr ? absl::OkStatus()
                                          : CheckState(frame, state);
}

// What the options leave of `state`. Collective; agreed.
StatusOr<RestoreResult> ReadState(RestoreFrame& frame, const OpenedStep& opened,
                                  const State& state) {
  if (frame.options.on_open != nullptr) {
    BELAY_RETURN_IF_AGREED(TellOfStep(frame, opened));
    BELAY_RETURN_IF_AGREED(Agree(frame.context, CheckState(frame, state)));
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const RestoreChooser chooser,
                                AgreeOnChooser(frame, KeysOf(state)));
  return ReadValues(
      frame, opened,
      ChooseValues(state, *frame.handlers,
                   [&](std::string_view key) { return chooser.Choose(key); }));
}

}  // namespace

StatusOr<RestoreResult> ReadValues(RestoreFrame& frame,
                                   const OpenedStep& opened,
                                   StatusOr<ValuesToRead> values) {
  StatusOr<RestoreResult> result = RunStages(frame, opened, std::move(values));
  if (absl::IsDataLoss(result.status())) {
    result = NameEarlierStep(frame, opened, result.status());
  }
  LogResult(frame.context, result);
  return result;
}

StatusOr<RestoreResult> RestoreState(const Comm& comm,
                                     const RestoreSource& source, Status mine,
                                     const State& state,
                                     const RestoreOptions& options) {
  RestoreFrame frame(comm, source.path, options);
  if (mine.ok()) mine = StatusBefore(frame, state);
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, source, mine));
  BELAY_ASSIGN_OR_RETURN_AGREED(const OpenedStep opened,
                                OpenStep(frame, source));
  return ReadState(frame, opened, state);
}

StatusOr<RestoreResult> Restore(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step, const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const StatusOr<RestoreSource> source = SourceOf(dir, step);
  return RestoreState(comm, source.value_or(RestoreSource{.path = dir}),
                      source.status(), state, options);
}

StatusOr<std::optional<RestoreResult>> RestoreLatestOrNothing(
    const Comm& comm, const std::string& dir, const State& state,
    const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const RestoreSource source{.path = dir, .kind = RestoreSource::Kind::kRun};
  RestoreFrame frame(comm, dir, options);
  BELAY_RETURN_IF_AGREED(
      BeginRestore(frame, source, StatusBefore(frame, state)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::optional<OpenedStep> opened,
                                OpenStepIfAny(frame, source));
  if (!opened) return std::nullopt;
  return ReadState(frame, *opened, state);
}

}  // namespace belay
