// A restore, from its options to its result.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/save_restore.h"
#include "core/agreed.h"
#include "core/option_table.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "mpi/collective.h"
#include "pipeline/listing.h"
#include "pipeline/result_text.h"
#include "pipeline/save_options.h"
#include "pipeline/stages.h"
#include "plan/shared_targets.h"
#include "restore/restore_stages.h"
#include "state/stored_answer.h"
#include "storage/commit.h"

namespace belay {

Status CheckReading(std::string_view operation, const std::string& path,
                    const RestoreOptions& options) {
  const std::string start =
      absl::StrFormat("%s \"%s\"", AbslView(operation), path);
  BELAY_RETURN_IF_ERROR(CheckRanges(start, options));
  if (options.read_sharing == ReadSharing::kEachRank &&
      options.primary_replica) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: primary_replica says that others do not read, but read_sharing is "
        "%s",
        start, ValueInProgram(options.read_sharing)));
  }
  return absl::OkStatus();
}

ReadRules ReadRulesOf(const RestoreOptions& options) {
  return {.sharing = options.read_sharing,
          .primary_replica = options.primary_replica,
          .max_bytes_in_flight = options.max_bytes_in_flight};
}

Status CheckNoArgs(const std::string& dir, const RestoreOptions& options) {
  const char* const name = !options.args.empty()        ? "args"
                           : options.selects != nullptr ? "selects"
                           : options.on_open != nullptr ? "on_open"
                           : !HasDefaultPolicies(options)
                               ? "missing, unexpected or mismatched"
                               : nullptr;
  if (name == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "restore \"%s\": the option %s is for values that the program has: %s",
      dir, name, kArrayArgsWord.InProgram()));
}

namespace {

std::vector<CommonOption> CommonArguments(const RestoreSource& source,
                                          const RestoreOptions& options) {
  std::vector<CommonOption> common = {
      {"the step", Encode(source.step)},
      {"the path", WithoutSlashes(source.path)},
      {"the kind of source", Encode(source.kind)},
      {"the save that is meant", Encode(source.identity)}};
  for (CommonOption& option : CommonOptions(options)) {
    common.push_back({Cat("the option ", option.name), option.bytes});
  }
  return common;
}

}  // namespace

RestoreFrame::RestoreFrame(const Comm& comm, const std::string& path,
                           const RestoreOptions& chosen)
    : context{comm, Deadline(comm, chosen.deadline_seconds,
                             absl::StrFormat("restore \"%s\"", path))},
      stages(context),
      options(chosen),
      handlers(GetHandlers(chosen.handlers)) {}

StatusOr<RestoreSource> SourceOf(const std::string& dir,
                                 std::optional<int64_t> step) {
  if (!step) {
    return RestoreSource{.path = dir, .kind = RestoreSource::Kind::kRun};
  }
  if (*step >= 0) {
    return RestoreSource{.path = StepPath(dir, *step), .step = *step};
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("restore \"%s\": step is out of range (need 0 to %d, "
                      "found %d); the newest one is %s",
                      dir, INT64_MAX, *step, kLatestStepWord.InProgram()));
}

Agreed<> BeginRestore(RestoreFrame& frame, const RestoreSource& source,
                      const Status& mine) {
  frame.stages.Enter("list");
  Status sound = mine;
  sound.Update(CheckReading("restore", source.path, frame.options));
  BELAY_RETURN_IF_AGREED(
      AgreeSameText(frame.context, "restore: the directory",
                    source.kind == RestoreSource::Kind::kCheckpoint
                        ? GetParent(source.path)
                        : WithoutSlashes(source.path),
                    sound));
  return AgreeOnArguments(frame.context, "restore",
                          CommonArguments(source, frame.options));
}

Agreed<BlockCounts> CompareTogether(CommContext& context,
                                    const std::string& operation,
                                    const ReadBlocks& read) {
  BELAY_RETURN_IF_AGREED(XorToRoot(context, read.registers));
  BELAY_RETURN_IF_AGREED(SumAll(context, read.covered));
  BlockCounts counts;
  BELAY_RETURN_IF_AGREED(OnRoot(context, [&] {
    return CompareChecksums(read.saved, read.plan, operation, read.registers,
                            read.covered, counts);
  }));
  std::vector<int64_t> shared = {counts.verified, counts.partial};
  BELAY_RETURN_IF_AGREED(MaxAll(context, shared));
  return BlockCounts{.verified = shared[0], .partial = shared[1]};
}

namespace {

// Stage verify. Collective.
Agreed<BlockCounts> Verify(RestoreFrame& frame, const OpenedStep& opened,
                           const PlannedReads& planned, ReadData& data) {
  if (!planned.checks) return BlockCounts{};
  frame.stages.Enter("verify");
  return CompareTogether(
      frame.context, absl::StrFormat("restore \"%s\"", planned.path),
      {opened.saved, planned.plan, data.registers, data.covered});
}

// Plans, reads and verifies the shards, and agrees on `mine`.
// `no_shared_memory` as in ReadPlanned. Collective; agreed.
Agreed<RestoreResult> ReadShards(RestoreFrame& frame, const OpenedStep& opened,
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

// Adds the result of one round to that of earlier rounds.
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
  // Reports reading once if any round did.
  const bool reads_once = sum.read_sharing == ReadSharing::kOnce;
  if (sum.sharing_note.empty() || (!reads_once && round.num_arrays > 0)) {
    sum.read_sharing = round.read_sharing;
    sum.sharing_note = std::move(round.sharing_note);
  }
  sum.counters.staged_bytes =
      std::max(sum.counters.staged_bytes, round.counters.staged_bytes);
}

// All stages from list on. Collective; agreed.
Agreed<RestoreResult> RunStages(RestoreFrame& frame, const OpenedStep& opened,
                                StatusOr<ValuesToRead> values) {
  BELAY_ASSIGN_OR_RETURN_AGREED(ListedRestore listed,
                                ListTogether(frame, opened, std::move(values)));
  RestoreResult result = std::move(listed.report);
  result.conversions = listed.computed_conversions;
  std::string no_shared_memory;  // for all rounds after the first
  for (bool more = true; more;) {
    std::vector<Shard> shards =
        ListShards(std::move(listed.listing.shards), frame.context.rank());
    const StatusOr<std::vector<SharedTarget>> shared = SetApart(shards);
    Status mine = listed.status;
    mine.Update(shared.status());
    Agreed<RestoreResult> round =
        ReadShards(frame, opened, shards, listed.listing.tolerances, mine,
                   no_shared_memory);
    Status together;
    if (round.ok()) {
      together = PutTogether(
          *shared, absl::StrFormat("restore \"%s\"", round->path), shards);
    }
    BELAY_RETURN_IF_AGREED(
        CheckUnchanged(frame, opened, round.status(), together));
    BELAY_RETURN_IF_AGREED(round);
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

// Adds a hint on which step to use instead of a damaged one. Collective;
// agreed.
Agreed<> NameEarlierStep(RestoreFrame& frame, const OpenedStep& opened,
                         const Status& damage) {
  const Agreed<std::string> hint =
      FromRoot(frame.context, [&]() -> StatusOr<std::string> {
        return EarlierStepHint(opened.source.path);
      });
  return SameOnAllRanks(hint.ok() ? InsertBeforeRank(damage, *hint) : damage);
}

// Checks a State. A layout for other ranks comes first: it may be why memory
// does not fit.
Status CheckState(const RestoreFrame& frame, const State& state) {
  Status status = CheckLayouts(state.shards(), frame.context.size());
  status.Update(state.status());
  return status;
}

// A State that on_open fills is checked after that.
Status StatusBefore(const RestoreFrame& frame, const State& state) {
  return frame.options.on_open != nullptr ? absl::OkStatus()
                                          : CheckState(frame, state);
}

// Reads the values of `state` that the options select. Collective; agreed.
Agreed<RestoreResult> ReadState(RestoreFrame& frame, const OpenedStep& opened,
                                const State& state) {
  if (frame.options.on_open != nullptr) {
    BELAY_RETURN_IF_AGREED(TellOfStep(frame, opened));
    BELAY_RETURN_IF_AGREED(Agree(frame.context, CheckState(frame, state)));
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const RestoreChooser chooser,
                                AgreeOnChooser(frame, ListKeys(state)));
  return ReadValues(
      frame, opened,
      ChooseValues(state, *frame.handlers,
                   [&](std::string_view key) { return chooser.Choose(key); }));
}

}  // namespace

Agreed<RestoreResult> ReadValues(RestoreFrame& frame, const OpenedStep& opened,
                                 StatusOr<ValuesToRead> values) {
  Agreed<RestoreResult> result = RunStages(frame, opened, std::move(values));
  if (absl::IsDataLoss(result.status())) {
    result = NameEarlierStep(frame, opened, result.status()).error();
  }
  LogResult(frame.context, result);
  return result;
}

Agreed<RestoreResult> RestoreState(const Comm& comm,
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

StatusOr<std::optional<RestoreResult>> RestoreLatest(
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
  BELAY_ASSIGN_OR_RETURN_AGREED(RestoreResult result,
                                ReadState(frame, *opened, state));
  return result;
}

}  // namespace belay
