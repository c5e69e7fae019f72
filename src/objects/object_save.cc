// Saves objects, and merges the graphs of all ranks.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/async_saver.h"
#include "belay/checkpoint.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "graph/merge.h"
#include "mpi/collective.h"
#include "objects/tracked_objects.h"
#include "pipeline/listing.h"
#include "pipeline/stages.h"
#include "save/background_save.h"
#include "save/save.h"
#include "storage/commit.h"

namespace belay {
namespace {

// Rank 0 only.
StatusOr<MergedGraph> Merge(const Heard& heard) {
  std::map<Hash128, ObjectGraph> graphs;
  std::vector<RankGraph> ranks;
  for (size_t rank = 0; rank < heard.ranks.size(); ++rank) {
    const Hash128 list = heard.ranks[rank][0];
    const auto [graph, is_new] = graphs.try_emplace(list);
    ranks.push_back({.rank = static_cast<int>(rank), .graph = &graph->second});
    if (!is_new) continue;
    BELAY_ASSIGN_OR_RETURN(
        graph->second, DecodeGraph(absl::StrJoin(heard.lists.at(list), "")));
  }
  return MergeGraphs(ranks);
}

// What each rank receives: the fingerprint of the merged graph, and the renames
// of the rank.
using MergedPart =
    std::pair<uint64_t, std::vector<std::pair<std::string, std::string>>>;

std::vector<std::string> EncodeParts(const MergedGraph& merged) {
  const uint64_t fingerprint = GraphFingerprint(merged.graph);
  std::vector<std::string> parts;
  for (const auto& renames : merged.renames) {
    parts.push_back(Encode(MergedPart(fingerprint, renames)));
  }
  return parts;
}

// Returns true if the merged graph was made from the current graphs.
// Collective; agreed.
Agreed<bool> IsUpToDate(CommContext& context, const Status& mine, uint64_t own,
                        const MergeResult& merge) {
  const bool fits = merge.merged != 0 && merge.own == own;
  const uint64_t merged = fits ? merge.merged : 0;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<bool> same,
      AgreeOnStructure(context, mine, std::vector<uint64_t>{merged}));
  return fits && same[0];
}

}  // namespace

Agreed<> MergeTogether(CommContext& context, const StatusOr<LiveGraph>& live,
                       MergeResult& merge) {
  const uint64_t own = live.ok() ? GraphFingerprint(live->graph) : 0;
  BELAY_ASSIGN_OR_RETURN_AGREED(const bool is_up_to_date,
                                IsUpToDate(context, live.status(), own, merge));
  if (is_up_to_date) return {};
  merge = {.sent_lists = std::move(merge.sent_lists)};
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const RootMessage message,
      GatherLists(context, {CutGraph(live->graph)}, merge.sent_lists,
                  [&](const Heard& heard) -> StatusOr<RootMessages> {
                    BELAY_ASSIGN_OR_RETURN(MergedGraph merged, Merge(heard));
                    RootMessages messages{.parts = EncodeParts(merged)};
                    merge.graph = std::move(merged.graph);
                    return messages;
                  }));
  MergedPart part = Decode<MergedPart>(message.part).value_or(MergedPart());
  merge.merged = part.first;
  merge.renames.insert(part.second.begin(), part.second.end());
  merge.own = own;
  return {};
}

// The functions of Checkpoint, except restores.

namespace {

// Lists the values under their keys in the merged graph.
State ListRenamed(const LiveGraph& live, const MergeResult& merge) {
  std::vector<KeyedValue> values = OwnKeys(live);
  for (KeyedValue& value : values) {
    const auto renamed = merge.renames.find(value.key);
    if (renamed != merge.renames.end()) value.key = renamed->second;
  }
  return ListValues(live, values);
}

// Fetches opaque states, and merges the graphs of all ranks. Has a separate
// deadline, which must not cover the save as well. Collective; agreed.
Agreed<> MergeWatched(TrackedObjects& objects, const std::string& path,
                      const SaveOptions& options, StatusOr<LiveGraph>& live,
                      StageCosts& costs) {
  CommContext context{*objects.comm,
                      Deadline(*objects.comm, options.deadline_seconds,
                               absl::StrFormat("save \"%s\"", path))};
  Stages stages(context);
  stages.Enter("merge graphs");
  if (live.ok()) {
    if (Status status = FetchOpaqueStates(*live); !status.ok()) live = status;
  }
  BELAY_RETURN_IF_AGREED(MergeTogether(context, live, objects.merge));
  costs = {.messages = context.messages,
           .agreement_bytes = context.agreement_bytes,
           .stages = stages.Finish()};
  return {};
}

// Returns the counter, raised to the newest step in `dir`: a program that has
// restored an older step must not replace newer steps. Collective; agreed.
Agreed<int64_t> PassNewer(const TrackedObjects& objects, const std::string& dir,
                          const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(*objects.comm, "save", dir));
  CommContext context{*objects.comm,
                      Deadline(*objects.comm, options.deadline_seconds,
                               Cat("save in \"", dir, "\""))};
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const int64_t newest,
      ShareFromRoot<int64_t>(context, [&]() -> StatusOr<int64_t> {
        // The save reports errors of the directory.
        const StatusOr<std::vector<int64_t>> steps =
            CommittedSteps(dir, kStepPrefix);
        return steps.ok() && !steps->empty() ? steps->back() : -1;
      }));
  return newest == INT64_MAX ? objects.counter
                             : std::max(objects.counter, newest);
}

}  // namespace

int64_t FindStepNumber(const std::string& path) {
  const std::optional<StepLabel> label = ParseStepName(GetLastName(path));
  return label.has_value() ? label->step : 0;
}

Agreed<PreparedObjects> PrepareObjects(TrackedObjects& objects,
                                       const std::string& path,
                                       const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(*objects.comm, "save", path));
  StatusOr<LiveGraph> live = objects.Track(options.handlers);
  PreparedObjects prepared;
  BELAY_RETURN_IF_AGREED(
      MergeWatched(objects, path, options, live, prepared.costs));
  prepared.live = *std::move(live);
  prepared.state = ListRenamed(prepared.live, objects.merge);
  return prepared;
}

Agreed<SaveResult> SaveStep(TrackedObjects& objects, const std::string& path,
                            const SaveOptions& options, bool& at_files) {
  return SaveStepBy(objects, path, options, &at_files,
                    [&](const SaveJob& job, const SaveOptions& with_cache) {
                      return SaveAt(*objects.comm, job, with_cache);
                    });
}

Agreed<NextStep> PassNewerSteps(TrackedObjects& objects, const std::string& dir,
                                const SaveOptions& options) {
  NextStep next{.restored = objects.counter, .newest = objects.counter};
  if (objects.is_counter_restored) {
    BELAY_ASSIGN_OR_RETURN_AGREED(next.newest,
                                  PassNewer(objects, dir, options));
  }
  if (!options.overwrite) objects.counter = next.newest;
  next.passed = objects.counter;
  return next;
}

std::function<void(bool)> EndOfStep(TrackedObjects& objects,
                                    const NextStep& next) {
  return [&objects, next, number = objects.counter,
          restores = objects.num_restores,
          is_there = std::weak_ptr<bool>(objects.is_there)](bool ok) {
    if (is_there.expired()) return;
    if (objects.counter != number || objects.num_restores != restores) return;
    if (!ok) objects.counter = next.restored;
    if (ok) objects.is_counter_restored = false;
  };
}

std::string NumberWarning(const std::string& dir, const NextStep& next) {
  if (next.passed > next.restored) {
    return absl::StrFormat(
        "step %d was restored, and \"%s\" has steps up to %d: the next number "
        "is %d",
        next.restored, dir, next.passed, next.passed + 1);
  }
  if (next.newest <= next.restored + 1) return "";
  return absl::StrFormat(
      "step %d was restored, and \"%s\" has steps up to %d: step %d is not "
      "the one that a restore of the latest takes",
      next.restored, dir, next.newest, next.restored + 1);
}

Checkpoint::Checkpoint(const Comm& comm, Objects objects)
    // An object without content, which is not equal to any other object.
    : Checkpoint(comm, ObjectRef([](Tracker&) {}), std::move(objects)) {}

Checkpoint::Checkpoint(const Comm& comm, ObjectRef root, Objects objects)
    : objects_(std::make_unique<TrackedObjects>()) {
  objects_->comm = &comm;
  objects_->root = std::move(root);
  objects_->attached = std::move(objects);
  std::stable_sort(
      objects_->attached.begin(), objects_->attached.end(),
      [](const Attached& a, const Attached& b) { return a.first < b.first; });
}

Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

StatusOr<LiveGraph> TrackedObjects::Track(const TypeHandlerRegistry* handlers) {
  std::vector<Attached> all = attached;
  if (has_counter) all.emplace_back(kSaveCounter, counter);
  return TrackObjects(root, comm->rank(), all, handlers, comm->size());
}

Agreed<> CheckMoved(const TrackedObjects* objects, std::string_view operation) {
  if (objects != nullptr) return {};
  return SameOnAllRanks(absl::FailedPreconditionError(
      Cat(operation, " \"Checkpoint\": it was moved from")));
}

StatusOr<SaveResult> Checkpoint::Save(const std::string& dir,
                                      const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(objects_.get(), "save"));
  TrackedObjects& objects = *objects_;
  BELAY_ASSIGN_OR_RETURN_AGREED(const NextStep next,
                                PassNewerSteps(objects, dir, options));
  bool ignored = false;
  Agreed<SaveResult> result =
      SaveStep(objects, dir.empty() ? "" : StepPath(dir, next.passed + 1),
               options, ignored);
  if (!result.ok()) {
    objects.counter = next.restored;
    return result;
  }
  objects.is_counter_restored = false;
  const std::string warning = NumberWarning(dir, next);
  if (!warning.empty()) result->warnings.push_back(warning);
  return result;
}

StatusOr<SaveResult> Checkpoint::SaveAs(const std::string& path,
                                        const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(objects_.get(), "save"));
  return SaveObjects(*objects_, path, options, nullptr,
                     [&](const SaveJob& job, const SaveOptions& with_cache) {
                       return SaveAt(*objects_->comm, job, with_cache);
                     });
}

int64_t Checkpoint::save_counter() const {
  return objects_ == nullptr ? 0 : objects_->counter;
}

const Comm& Checkpoint::comm() const {
  static const Comm none;
  return objects_ == nullptr ? none : *objects_->comm;
}

// Saving the objects of a Checkpoint in the background.

namespace {

// Checks that both communicators have the same ranks in the same order. Equal
// on all ranks of a correct program.
Agreed<> CheckSameRanks(const Comm& one, const Comm& other) {
  int result = MPI_UNEQUAL;
  MPI_Comm_compare(one.raw(), other.raw(), &result);
  if (result == MPI_IDENT || result == MPI_CONGRUENT) return {};
  return SameOnAllRanks(absl::InvalidArgumentError(
      "save \"AsyncSaver\": the Checkpoint has a communicator of other ranks, "
      "or in another order"));
}

}  // namespace

StatusOr<PendingSave> AsyncSaver::Save(Checkpoint& checkpoint,
                                       const std::string& dir,
                                       const SaveOptions& options) {
  if (saver_ == nullptr) return Wait().status();  // has the cause
  BELAY_ASSIGN_OR_RETURN_AGREED(std::optional<SaveResult> finished,
                                saver_->WaitBeforeNext());
  BELAY_RETURN_IF_AGREED(CheckMoved(checkpoint.objects_.get(), "save"));
  TrackedObjects& objects = *checkpoint.objects_;
  BELAY_RETURN_IF_AGREED(CheckComm(*objects.comm, "save", dir));
  BELAY_RETURN_IF_AGREED(CheckSameRanks(*objects.comm, saver_->comm()));
  BELAY_ASSIGN_OR_RETURN_AGREED(const NextStep next,
                                PassNewerSteps(objects, dir, options));
  Agreed<PendingSave> pending = SaveStepBy(
      objects, dir.empty() ? "" : StepPath(dir, next.passed + 1), options,
      nullptr, [&](const SaveJob& job, const SaveOptions& with_cache) {
        return saver_->Begin(job, with_cache, EndOfStep(objects, next));
      });
  if (!pending.ok()) {
    objects.counter = next.restored;
    saver_->Keep(std::move(finished));
    return pending;
  }
  pending->finished = std::move(finished);
  const std::string warning = NumberWarning(dir, next);
  if (!warning.empty()) {
    pending->note += Cat(pending->note.empty() ? "" : "; ", warning);
  }
  return pending;
}

}  // namespace belay
