// Restores objects.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/checkpoint.h"
#include "belay/objects/load_status.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "graph/graph_match.h"
#include "graph/load_report.h"
#include "graph/object_graph.h"
#include "mpi/collective.h"
#include "objects/tracked_objects.h"
#include "pipeline/stages.h"
#include "restore/restore_stages.h"
#include "state/array_access.h"
#include "state/stored_answer.h"

namespace belay {
namespace {

Status IncompatibleError(const std::string& path, const LoadReport& report) {
  std::vector<std::string> lines;
  for (const DifferentValue& value : report.incompatible) {
    lines.push_back(absl::StrFormat("\"%s\" (need %s, found %s)%s", value.key,
                                    value.needed, value.found,
                                    RanksText(value.ranks, report)));
  }
  constexpr size_t kShown = 10;
  return absl::FailedPreconditionError(absl::StrFormat(
      "restore \"%s\": %d %s stored with another dtype or shape, nothing was "
      "restored: %s; %s",
      path, lines.size(), lines.size() == 1 ? "value is" : "values are",
      JoinFirst(lines, kShown, ", "), MismatchAdvice(report.incompatible)));
}

// Mismatches of a value's type or of the save counter are always errors.
bool IsRefused(const std::vector<DifferentValue>& incompatible,
               MismatchPolicy mismatched) {
  if (mismatched == MismatchPolicy::kError) return !incompatible.empty();
  return std::any_of(incompatible.begin(), incompatible.end(),
                     [](const DifferentValue& value) {
                       return value.found.starts_with(kTypeText) ||
                              value.key == SaveCounterKey();
                     });
}

// Fails if the report, which is equal on all ranks, has mismatches that the
// options do not allow. Collective; agreed.
// Errors: FailedPrecondition - values of another dtype, shape or type.
Agreed<> RefuseMismatches(CommContext& context, const std::string& path,
                          const LoadReport& report, MismatchPolicy mismatched) {
  if (!IsRefused(report.incompatible, mismatched)) return {};
  return Agree(context, IncompatibleError(path, report));
}

// Adds a warning for each mismatch, if the policy asks for it.
LoadStatus WithMismatchWarnings(const LoadStatus& status,
                                MismatchPolicy mismatched) {
  if (mismatched != MismatchPolicy::kWarn) return status;
  LoadReport report = status.report();
  for (const DifferentValue& value : report.incompatible) {
    report.warnings.push_back(
        Cat("\"", value.key,
            "\" stays as it is: its stored dtype or shape differs (need ",
            value.needed, ", found ", value.found, ")"));
  }
  return LoadStatus(status.kind(), std::move(report), status.rank_reports());
}

// Adds conversions that were found only when handlers listed their arrays.
LoadStatus WithConversions(const LoadStatus& status,
                           const std::vector<Conversion>& conversions) {
  LoadReport report = status.report();
  for (const Conversion& one : conversions) {
    const bool is_known =
        std::any_of(report.converted.begin(), report.converted.end(),
                    [&](const DifferentValue& value) {
                      return value.stored_key == one.key;
                    });
    if (is_known) continue;
    report.converted.push_back(
        {.key = one.key,
         .stored_key = one.key,
         .needed = FormText({one.dtype, one.shape}),
         .found = FormText({one.stored_dtype, one.stored_shape}),
         .ranks = report.ranks});
  }
  return LoadStatus(status.kind(), std::move(report), status.rank_reports());
}

// Returns a graph of all values of a checkpoint that has no graph.
ObjectGraph GraphOfAll(const SavedCheckpoint& saved) {
  std::vector<GraphAttribute> attributes;
  for (const StoredValue& value : ValuesAlone(saved)) {
    GraphAttribute& attribute = attributes.emplace_back();
    attribute.name = attribute.key = value.key;
    if (IsPlain(value)) {
      attribute.dtype = value.parts[0].dtype;
      attribute.shape = value.parts[0].shape;
    } else {
      attribute.typestr = value.typestr;
    }
  }
  return GraphOfArrays(std::move(attributes));
}

// Rank 0 only.
StatusOr<std::string> EncodeStoredGraph(const SavedCheckpoint& saved) {
  const bool by_name = saved.graph.node_name.empty();
  ObjectGraph graph;
  if (by_name) {
    graph = GraphOfAll(saved);
  } else {
    BELAY_ASSIGN_OR_RETURN(
        graph, FromStoredGraph(saved.graph, saved.arrays, saved.values));
  }
  return Cat(by_name ? "n" : "g", EncodeGraph(graph));
}

// Stage "graph": sends the stored graph to all ranks. Collective; agreed.
Agreed<Restoration> ShareGraph(RestoreFrame& frame,
                               const SavedCheckpoint& saved) {
  frame.stages.Enter("graph");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes,
      FromRoot(frame.context, [&] { return EncodeStoredGraph(saved); }));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ObjectGraph graph,
      AgreeOn(frame.context, DecodeGraph(std::string_view(bytes).substr(1))));
  return Restoration{.saved = std::move(graph), .by_name = bytes[0] == 'n'};
}

// Merges the matches of all ranks. Collective; agreed.
Agreed<LoadStatus> ReportTogether(CommContext& context,
                                  const Restoration& restoration,
                                  const RankMatch& mine) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> gathered,
                                Gather(context, Encode(mine)));
  const auto report = [&]() -> StatusOr<LoadReport> {
    std::vector<RankMatch> matches;
    for (const std::string& text : gathered) {
      std::optional<RankMatch> match = Decode<RankMatch>(text);
      if (!match) return DifferentCalls();
      matches.push_back(*std::move(match));
    }
    return MakeLoadReport(restoration.saved, matches);
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      LoadReport merged, ShareFromRoot<LoadReport>(context, [&] {
        return CatchBadAlloc("the reports of all ranks", report);
      }));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      LoadReport own,
      AgreeOn(context, MakeLoadReport(restoration.saved, {mine})));
  return LoadStatus(restoration.by_name ? LoadStatus::Kind::kNameBased
                                        : LoadStatus::Kind::kObjectGraph,
                    std::move(merged), {std::move(own)});
}

// Returns the arguments of each live value. For the save counter, only the
// options apply. Collective; agreed.
Agreed<std::vector<RestoreChoice>> ChooseTogether(RestoreFrame& frame,
                                                  const LiveGraph& live) {
  std::vector<RestoreChoice> choices;
  if (frame.options.args.empty() && !frame.options.selects) {
    choices.assign(live.values.size(),
                   {.tolerance = MostTolerance(frame.options)});
    return choices;
  }
  std::vector<std::string_view> keys;
  for (const LiveValue& value : live.values) {
    keys.push_back(live.GetAttribute(value).key);
  }
  const RestoreChoice of_counter = {
      .tolerance = {.dtype = frame.options.allow_dtype_cast,
                    .lengths = frame.options.allow_shape_mismatch}};
  BELAY_ASSIGN_OR_RETURN_AGREED(const RestoreChooser chooser,
                                AgreeOnChooser(frame, keys));
  BELAY_RETURN_IF_AGREED(Agree(frame.context, CatchExceptions([&] {
                                 for (std::string_view key : keys) {
                                   choices.push_back(key == SaveCounterKey()
                                                         ? of_counter
                                                         : chooser.Choose(key));
                                 }
                                 return absl::OkStatus();
                               })));
  return choices;
}

// Returns the matched values, each with its chosen tolerance.
StatusOr<ValuesToRead> ToRead(const LiveGraph& live,
                              const std::vector<KeyedValue>& reads,
                              const std::vector<RestoreChoice>& choices,
                              const HandlerTable& table) {
  ValuesToRead values;
  for (const KeyedValue& keyed : reads) {
    const LiveValue& value = live.values[keyed.value];
    const RestoreChoice& choice = choices[keyed.value];
    const Tolerance tolerance = choice.tolerance;
    if (value.handled.address != nullptr) {
      BELAY_ASSIGN_OR_RETURN(
          TypeHandlerPtr handler,
          HandlerFor({keyed.key, value.handled, value.handler}, table));
      BELAY_RETURN_IF_ERROR(CheckNotComputed(keyed.key, choice));
      values.handled.push_back({.key = keyed.key,
                                .value = value.handled,
                                .handler = std::move(handler),
                                .tolerance = tolerance});
    }
    for (const Shard& shard : value.shards) {
      BELAY_RETURN_IF_ERROR(values.Add(shard, {.stored_key = keyed.key,
                                               .tolerance = tolerance,
                                               .transform = choice.transform}));
    }
  }
  return values;
}

// Matches the objects with a checkpoint and reads the matched values. Opens the
// checkpoint if needed and not `opened`. Collective; agreed.
Agreed<LoadStatus> RestoreMatched(TrackedObjects& objects, RestoreFrame& frame,
                                  const LiveGraph& live,
                                  PendingObjects& pending,
                                  std::optional<OpenedStep> opened) {
  frame.stages.Enter("match");
  Restoration& restoration = pending.restoration;
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<RestoreChoice> choices,
                                ChooseTogether(frame, live));
  MatchResult match = MatchObjects(restoration, live, objects.restored,
                                   frame.context.rank(), choices);
  std::vector<std::string>& warnings = match.rank_match.warnings;
  if (opened) {
    warnings.insert(warnings.end(), opened->problems.begin(),
                    opened->problems.end());
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      LoadStatus status,
      ReportTogether(frame.context, restoration, match.rank_match));
  BELAY_RETURN_IF_AGREED(RefuseMismatches(frame.context, pending.source.path,
                                          status.report(),
                                          frame.options.mismatched));
  status = WithMismatchWarnings(status, frame.options.mismatched);
  std::vector<int64_t> most_reads = {std::ssize(match.reads)};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, most_reads));
  if (most_reads[0] > 0) {
    if (!opened) {
      BELAY_ASSIGN_OR_RETURN_AGREED(opened, OpenStep(frame, pending.source));
    }
    BELAY_ASSIGN_OR_RETURN_AGREED(
        const RestoreResult read,
        ReadValues(frame, *opened,
                   ToRead(live, match.reads, choices, *frame.handlers)));
    status = WithConversions(status, read.conversions);
    BELAY_RETURN_IF_AGREED(
        Agree(frame.context, HandOverOpaqueStates(live, match.reads)));
  }
  RememberMatch(live, match, restoration, objects.restored);
  pending.is_used_up = status.report().unused.empty();
  return status;
}

// Checks options that are invalid only for objects.
Status CheckOptions(const std::string& path, const RestoreOptions& options) {
  return AddPrefix(CheckMismatchPoliciesToObjects(options), "restore \"", path,
                   "\"");
}

// An empty path restores nothing. Collective; agreed.
Agreed<LoadStatus> RestoreNow(TrackedObjects& objects, const std::string& path,
                              const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(*objects.comm, "restore", path));
  const StatusOr<LiveGraph> live = objects.Track(options.handlers);
  const RestoreSource source{.path = path, .kind = RestoreSource::Kind::kAny};
  RestoreFrame frame(*objects.comm, path, options);
  frame.has_memory = true;
  Status mine = CheckOptions(path, options);
  if (!path.empty()) mine.Update(live.status());
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, source, mine));
  if (path.empty()) return LoadStatus::InitializationOnly();
  BELAY_ASSIGN_OR_RETURN_AGREED(OpenedStep opened, OpenStep(frame, source));
  BELAY_RETURN_IF_AGREED(PinRestore(frame, opened.source));
  PendingObjects pending{.source = opened.source};
  BELAY_ASSIGN_OR_RETURN_AGREED(pending.restoration,
                                ShareGraph(frame, opened.saved));
  pending.restoration.number = objects.num_restores + 1;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      LoadStatus status,
      RestoreMatched(objects, frame, *live, pending, std::move(opened)));
  ++objects.num_restores;
  std::erase_if(objects.pending,
                [](const PendingObjects& older) { return older.is_used_up; });
  objects.pending.push_back(std::move(pending));
  return status;
}

// Continues one restore. Collective; agreed.
Agreed<LoadStatus> RestoreMore(TrackedObjects& objects,
                               const StatusOr<LiveGraph>& live,
                               PendingObjects& pending,
                               const RestoreOptions& options) {
  RestoreFrame frame(*objects.comm, pending.source.path, options);
  frame.has_memory = true;
  Status mine = CheckOptions(pending.source.path, options);
  mine.Update(live.status());
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, pending.source, mine));
  return RestoreMatched(objects, frame, *live, pending, std::nullopt);
}

// Checks that ranks have the same number of pending restores. Collective;
// agreed.
Agreed<> AgreeOnPending(const TrackedObjects& objects,
                        const RestoreOptions& options) {
  CommContext context{*objects.comm,
                      Deadline(*objects.comm, options.deadline_seconds,
                               "restore what is deferred")};
  return AgreeSame(context, "restore: the number of pending restores",
                   objects.pending.size());
}

// Returns true if the checkpoint was deleted or replaced in the meantime.
bool IsGone(const Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status);
}

// Checks the restored counter, which is equal on all ranks. Collective; agreed.
Agreed<> CheckCounter(const TrackedObjects& objects, const std::string& path,
                      const RestoreOptions& options) {
  const int64_t counter = objects.counter;
  if (counter >= 0 && counter < INT64_MAX) return {};
  CommContext context{*objects.comm,
                      Deadline(*objects.comm, options.deadline_seconds,
                               absl::StrFormat("restore \"%s\"", path))};
  return Agree(context, absl::DataLossError(absl::StrFormat(
                            "restore \"%s\": the save counter is out of range "
                            "(need 0 to %d, found %d)",
                            path, INT64_MAX - 1, counter)));
}

}  // namespace

StatusOr<LoadStatus> Checkpoint::Restore(const std::string& path,
                                         const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(objects_.get(), "restore"));
  const int64_t counter = objects_->counter;
  const bool had_counter = std::exchange(
      objects_->has_counter, objects_->has_counter || !path.empty());
  StatusOr<LoadStatus> status = RestoreNow(*objects_, path, options);
  if (status.ok()) {
    const Status sound = CheckCounter(*objects_, path, options);
    if (!sound.ok()) status = sound;
  }
  if (!status.ok()) {
    objects_->counter = counter;
    objects_->has_counter = had_counter;
  } else if (!path.empty()) {
    objects_->is_counter_restored = true;
  }
  return status;
}

StatusOr<LoadStatus> Checkpoint::RestoreDeferred(
    const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(objects_.get(), "restore"));
  BELAY_RETURN_IF_AGREED(CheckComm(*objects_->comm, "restore", ""));
  BELAY_RETURN_IF_AGREED(AgreeOnPending(*objects_, options));
  std::vector<PendingObjects>& pending = objects_->pending;
  if (pending.empty()) return LoadStatus::InitializationOnly();
  const StatusOr<LiveGraph> live = objects_->Track(options.handlers);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const LoadStatus newest,
      RestoreMore(*objects_, live, pending.back(), options));
  LoadReport report = newest.report();
  // Older restores do not overwrite values of newer ones.
  for (size_t i = pending.size() - 1; i-- > 0;) {
    const Agreed<LoadStatus> older =
        RestoreMore(*objects_, live, pending[i], options);
    if (IsGone(older.status())) {
      report.warnings.push_back(
          Cat("no longer pending: ", std::string(older.status().message())));
      pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (!older.ok()) {
      return older.error();
    }
  }
  return LoadStatus(newest.kind(), std::move(report), newest.rank_reports());
}

}  // namespace belay
