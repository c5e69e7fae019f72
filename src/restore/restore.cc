#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "belay/save_restore.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "format/paths.h"
#include "io/steps/commit.h"
#include "pipeline/agree_arguments.h"
#include "pipeline/listing.h"
#include "pipeline/result_text.h"
#include "pipeline/save_options.h"
#include "restore/compare_together.h"
#include "restore/restore_options.h"
#include "restore/restore_run.h"

namespace belay {
namespace {

// Stage verify. Collective.
Status Verify(RestoreRun& run) {
  if (!run.checks) return absl::OkStatus();
  run.stages.Enter("verify");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const BlockCounts counts,
      CompareTogether(run.team,
                      absl::StrFormat("restore \"%s\"", run.source.path),
                      {run.saved, run.plan, run.registers, run.covered}));
  run.result.blocks_verified = counts.verified;
  run.result.blocks_partial = counts.partial;
  return absl::OkStatus();
}

// Stages plan, read and verify, of what is listed. Collective.
Status ReadListed(RestoreRun& run) {
  run.shards = ListShards(run.listing.shards, run.team.rank());
  run.tolerances = run.listing.tolerances;
  run.forms.clear();
  if (run.source.kind == RestoreSource::Kind::kFlatFile) {
    BELAY_RETURN_IF_AGREED(ReadFlat(run));
  } else {
    BELAY_RETURN_IF_AGREED(PlanStage(run));
    BELAY_RETURN_IF_AGREED(ReadStage(run));
    BELAY_RETURN_IF_AGREED(Verify(run));
  }
  return absl::OkStatus();
}

// Adds what was read in one round to what was read before. Local.
void AddResult(RestoreResult round, RestoreResult& sum) {
  sum.num_arrays += round.num_arrays;
  sum.blocks_verified += round.blocks_verified;
  sum.blocks_partial += round.blocks_partial;
  std::vector<Conversion>& all = sum.conversions;
  all.insert(all.end(), round.conversions.begin(), round.conversions.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  if (!round.missing.empty()) sum.missing = std::move(round.missing);
  if (!round.unexpected.empty()) sum.unexpected = std::move(round.unexpected);
  if (!round.mismatched.empty()) sum.mismatched = std::move(round.mismatched);
  if (!round.warnings.empty()) sum.warnings = std::move(round.warnings);
  sum.counters.bytes += round.counters.bytes;
  sum.counters.io_calls += round.counters.io_calls;
  sum.counters.delivered_bytes += round.counters.delivered_bytes;
  // Reading once in any round is what is told, and why.
  const bool reads_once = sum.read_sharing == ReadSharing::kOnce;
  if (sum.sharing_note.empty() || (!reads_once && round.num_arrays > 0)) {
    sum.read_sharing = round.read_sharing;
    sum.sharing_note = std::move(round.sharing_note);
  }
  sum.counters.staged_bytes =
      std::max(sum.counters.staged_bytes, round.counters.staged_bytes);
}

// Collective.
Status Report(RestoreRun& run) {
  run.result.path = run.source.path;
  run.result.step = run.source.step;
  run.result.counters.files = static_cast<int64_t>(run.file_names.size());
  run.result.counters.peak_memory_bytes = PeakMemoryBytes();
  run.result.counters.stages = run.stages.Finish();
  return CombineCounters(run.team, run.result.counters);
}

// A State that is made anew is only looked at then.
Status StatusBefore(const RestoreRun& run, const State& state) {
  return run.options.on_open != nullptr ? absl::OkStatus() : state.status();
}

// The run of what the caller asked for, up to the open index. Collective.
Status Start(RestoreRun& run, const Status& mine, const State& state) {
  BELAY_RETURN_IF_AGREED(
      BeginRestore(run, mine.ok() ? StatusBefore(run, state) : mine));
  return OpenStage(run);
}

// What the options leave of `state`. Collective; agreed.
StatusOr<RestoreResult> ReadState(RestoreRun& run, const State& state) {
  if (run.options.on_open != nullptr) {
    BELAY_RETURN_IF_AGREED(TellOfStep(run));
    BELAY_RETURN_IF_AGREED(Agree(run.team, state.status()));
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const RestoreChooser chooser,
                                AgreeOnChooser(run, KeysOf(state)));
  return ReadValues(
      run, ChooseValues(state, *run.handlers, [&](std::string_view key) {
        return chooser.Choose(key);
      }));
}

template <typename T>
CommonOption Named(const char* name, const T& value) {
  WireWriter out;
  out.Put(value);
  return {name, out.Take()};
}

std::vector<CommonOption> CommonArguments(const RestoreRun& run) {
  const RestoreSource& source = run.source;
  const RestoreOptions& options = run.options;
  return {
      Named("the step", source.step),
      {"the path", WithoutSlashes(source.path)},
      Named("the kind of source", source.kind),
      Named("the save that is meant", source.identity),
      Named("the option checksums", options.checksums),
      Named("the option allow_dtype_cast", options.allow_dtype_cast),
      Named("the option allow_shape_mismatch", options.allow_shape_mismatch),
      {"the option args", EncodeArgs(options.args)},
      Named("the option selects", options.selects != nullptr),
      Named("the option on_open", options.on_open != nullptr),
      Named("the option missing", options.missing),
      Named("the option unexpected", options.unexpected),
      Named("the option mismatched", options.mismatched),
      Named("the option read_sharing", options.read_sharing),
      {"the option primary_replica",
       options.primary_replica ? absl::StrFormat("%d", *options.primary_replica)
                               : ""},
      Named("the option max_bytes_in_flight", options.max_bytes_in_flight)};
}

}  // namespace

RestoreRun::RestoreRun(const Comm& comm, RestoreSource wanted,
                       const RestoreOptions& chosen)
    : team{comm, Deadline(comm, chosen.deadline_seconds,
                          absl::StrFormat("restore \"%s\"", wanted.path))},
      stages(team),
      source(std::move(wanted)),
      options(chosen),
      handlers(HandlersOf(chosen.handlers)) {}

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
                      "found %d); the newest one is kLatestStep",
                      dir, INT64_MAX, *step));
}

Status BeginRestore(RestoreRun& run, const Status& mine) {
  run.stages.Enter("list");
  const RestoreSource& source = run.source;
  Status sound = mine;
  sound.Update(
      CheckDeadlineSeconds(absl::StrFormat("restore \"%s\"", source.path),
                           run.options.deadline_seconds));
  sound.Update(CheckReading("restore", source.path, run.options));
  BELAY_RETURN_IF_AGREED(
      AgreeSame(run.team, "restore: the directory",
                Fingerprint(source.kind == RestoreSource::Kind::kCheckpoint
                                ? ParentOf(source.path)
                                : WithoutSlashes(source.path)),
                sound));
  return AgreeOnArguments(run.team, "restore", CommonArguments(run));
}

namespace {

// Collective; agreed.
StatusOr<RestoreResult> ReadRounds(RestoreRun& run,
                                   StatusOr<ValuesToRead> values) {
  BELAY_RETURN_IF_AGREED(ListTogether(run, std::move(values)));
  RestoreResult sum;
  sum.conversions = run.computed_conversions;
  for (bool more = true; more;) {
    BELAY_RETURN_IF_AGREED(ReadListed(run));
    AddResult(std::exchange(run.result, {}), sum);
    BELAY_ASSIGN_OR_RETURN_AGREED(more, ReceiveTogether(run));
  }
  run.result = std::move(sum);
  BELAY_RETURN_IF_AGREED(Report(run));
  return std::move(run.result);
}

}  // namespace

StatusOr<RestoreResult> ReadValues(RestoreRun& run,
                                   StatusOr<ValuesToRead> values) {
  StatusOr<RestoreResult> result = ReadRounds(run, std::move(values));
  LogResult(run.team, result);
  return result;
}

StatusOr<RestoreResult> RestoreFrom(const Comm& comm,
                                    const RestoreSource& source,
                                    const State& state,
                                    const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", source.path));
  RestoreRun run(comm, source, options);
  BELAY_RETURN_IF_AGREED(Start(run, absl::OkStatus(), state));
  return ReadState(run, state);
}

StatusOr<RestoreResult> Restore(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step, const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const StatusOr<RestoreSource> source = SourceOf(dir, step);
  RestoreRun run(comm, source.value_or(RestoreSource{.path = dir}), options);
  BELAY_RETURN_IF_AGREED(Start(run, source.status(), state));
  return ReadState(run, state);
}

StatusOr<std::optional<RestoreResult>> RestoreLatestOrNothing(
    const Comm& comm, const std::string& dir, const State& state,
    const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  RestoreRun run(comm, {.path = dir, .kind = RestoreSource::Kind::kRun},
                 options);
  BELAY_RETURN_IF_AGREED(BeginRestore(run, StatusBefore(run, state)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const bool any, OpenStageIfAny(run));
  if (!any) return std::nullopt;
  return ReadState(run, state);
}

StatusOr<RestoreResult> Restore(const Comm& comm, const PendingRestore& pending,
                                const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", pending.path_));
  RestoreRun run(comm,
                 {.path = pending.path_,
                  .step = pending.step_,
                  .identity = pending.identity_},
                 options);
  Status status;
  if (pending.identity_ == 0) {
    status = absl::FailedPreconditionError(
        absl::StrFormat("restore \"%s\": nothing is pending: call RestoreLater",
                        pending.path_));
  }
  BELAY_RETURN_IF_AGREED(Start(run, status, state));
  return ReadState(run, state);
}

StatusOr<PendingRestore> RestoreLater(const Comm& comm, const std::string& dir,
                                      std::optional<int64_t> step,
                                      const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const StatusOr<RestoreSource> source = SourceOf(dir, step);
  RestoreRun run(comm, source.value_or(RestoreSource{.path = dir}), options);
  BELAY_RETURN_IF_AGREED(Start(run, source.status(), State()));
  BELAY_RETURN_IF_AGREED(PinRestore(run));
  PendingRestore pending;
  pending.path_ = run.source.path;
  pending.step_ = run.source.step;
  pending.identity_ = run.source.identity;
  return pending;
}

std::string StepPath(const std::string& dir, int64_t step,
                     std::string_view prefix) {
  return JoinPath(dir, StepName(step, prefix));
}

StatusOr<std::vector<int64_t>> ListSteps(const std::string& dir,
                                         std::string_view prefix) {
  BELAY_RETURN_IF_ERROR(CheckIsNoStep("list steps in", dir));
  return CommittedSteps(dir, prefix);
}

}  // namespace belay
