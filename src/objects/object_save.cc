// Checkpoint, but for what restores.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/checkpoint.h"
#include "bytes/wire.h"
#include "format/paths.h"
#include "io/steps/commit.h"
#include "mpi/collective.h"
#include "objects/merge_together.h"
#include "objects/save_step.h"
#include "objects/tracked_objects.h"
#include "pipeline/stages.h"
#include "save/save_at.h"

namespace belay {
namespace {

// A number is what the usual names of steps end in.
int64_t StepOf(const std::string& path) {
  const std::optional<StepLabel> label = ParseStepName(NameOf(path));
  return label.has_value() ? label->step : 0;
}

// The values under the keys that they have in the merged graph.
State ListRenamed(const LiveGraph& live, const MergeResult& merge) {
  std::vector<KeyedValue> values = OwnKeys(live);
  for (KeyedValue& value : values) {
    const auto renamed = merge.renames.find(value.key);
    if (renamed != merge.renames.end()) value.key = renamed->second;
  }
  return ListValues(live, values);
}

// The stages before those of Save: the objects of all ranks as one graph, and
// the opaque states as bytes. Collective.
Status MergeStage(TrackedObjects& objects, Team& team,
                  StatusOr<LiveGraph>& live) {
  if (live.ok()) {
    if (Status status = FetchOpaqueStates(*live); !status.ok()) live = status;
  }
  return MergeTogether(team, live, objects.merge);
}

// What the stage has cost.
struct MergeCounts {
  int64_t messages = 0;
  int64_t agreement_bytes = 0;
  std::vector<StageTime> stages;
};

// The stage with a deadline of its own, which must not go on to watch what
// the save does afterwards. Collective; agreed.
Status MergeWatched(TrackedObjects& objects, const std::string& path,
                    const SaveOptions& options, StatusOr<LiveGraph>& live,
                    MergeCounts& counts) {
  Team team{*objects.comm, Deadline(*objects.comm, options.deadline_seconds,
                                    absl::StrFormat("save \"%s\"", path))};
  Stages stages(team);
  stages.Enter("merge graphs");
  BELAY_RETURN_IF_AGREED(MergeStage(objects, team, live));
  counts = {.messages = team.messages,
            .agreement_bytes = team.agreement_bytes,
            .stages = stages.Finish()};
  return absl::OkStatus();
}

// Saves all objects as they are. Collective.
StatusOr<SaveResult> SaveObjects(TrackedObjects& objects,
                                 const std::string& path, int64_t step,
                                 const SaveOptions& options, bool* at_files) {
  const Comm& comm = *objects.comm;
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "save", path));
  StatusOr<LiveGraph> live = objects.Track(options.handlers);
  MergeCounts counts;
  BELAY_RETURN_IF_AGREED(MergeWatched(objects, path, options, live, counts));
  const State state = ListRenamed(*live, objects.merge);
  SaveOptions with_cache = options;
  if (options.cache == nullptr) with_cache.cache = &objects.plan_cache;
  return SaveAt(comm,
                {.path = path,
                 .step = step,
                 .state = state,
                 .graph = comm.rank() == 0 ? &objects.merge.graph : nullptr,
                 .graph_fingerprint = objects.merge.merged,
                 .messages = counts.messages,
                 .agreement_bytes = counts.agreement_bytes,
                 .stages = std::move(counts.stages),
                 .at_files = at_files},
                with_cache);
}

// The counter after which there is no step in `dir`, so that a program that has
// restored an older one goes on behind the newest. Collective; agreed.
StatusOr<int64_t> PassNewer(const TrackedObjects& objects,
                            const std::string& dir,
                            const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(*objects.comm, "save", dir));
  Team team{*objects.comm, Deadline(*objects.comm, options.deadline_seconds,
                                    Cat("save in \"", dir, "\""))};
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string bytes,
                                FromRoot(team, [&]() -> StatusOr<std::string> {
                                  int64_t newest = -1;
                                  const StatusOr<std::vector<int64_t>> steps =
                                      CommittedSteps(dir, kStepPrefix);
                                  if (steps.ok() && !steps->empty())
                                    newest = steps->back();
                                  // Whatever is wrong with the directory, the
                                  // save will say.
                                  WireWriter out;
                                  out.Put(newest);
                                  return out.Take();
                                }));
  const auto newest = WireReader(bytes).Get<int64_t>();
  return newest == INT64_MAX ? objects.counter
                             : std::max(objects.counter, newest);
}

}  // namespace

StatusOr<SaveResult> SaveStep(TrackedObjects& objects, const std::string& path,
                              const SaveOptions& options, bool& at_files) {
  const bool had_counter = std::exchange(objects.has_counter, true);
  ++objects.counter;
  StatusOr<SaveResult> result =
      SaveObjects(objects, path, StepOf(path), options, &at_files);
  if (!result.ok()) {
    --objects.counter;
    objects.has_counter = had_counter;
  }
  return result;
}

Checkpoint::Checkpoint(const Comm& comm, Objects objects)
    // A function describes an object that nobody else can have.
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
  return TrackObjects(root, comm->rank(), all, handlers);
}

Status CheckMoved(const TrackedObjects* objects, std::string_view operation) {
  if (objects != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat(operation, " \"Checkpoint\": it was moved from"));
}

StatusOr<SaveResult> Checkpoint::Save(const std::string& dir,
                                      const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(objects_.get(), "save"));
  TrackedObjects& objects = *objects_;
  const int64_t restored = objects.counter;
  int64_t newest = restored;
  if (objects.is_counter_restored) {
    BELAY_ASSIGN_OR_RETURN_AGREED(newest, PassNewer(objects, dir, options));
  }
  if (!options.overwrite) objects.counter = newest;
  const int64_t passed = objects.counter;
  bool ignored = false;
  StatusOr<SaveResult> result = SaveStep(
      objects, dir.empty() ? "" : StepPath(dir, passed + 1), options, ignored);
  if (!result.ok()) {
    objects.counter = restored;
    return result;
  }
  objects.is_counter_restored = false;
  if (passed > restored) {
    result->warnings.push_back(absl::StrFormat(
        "step %d was restored, and \"%s\" has steps up to %d: the next number "
        "is %d",
        restored, dir, passed, passed + 1));
  } else if (newest > restored + 1) {
    result->warnings.push_back(absl::StrFormat(
        "step %d was restored, and \"%s\" has steps up to %d: step %d is not "
        "the one that a restore of the latest takes",
        restored, dir, newest, restored + 1));
  }
  return result;
}

StatusOr<SaveResult> Checkpoint::SaveAs(const std::string& path,
                                        const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(objects_.get(), "save"));
  return SaveObjects(*objects_, path, StepOf(path), options, nullptr);
}

int64_t Checkpoint::save_counter() const {
  return objects_ == nullptr ? 0 : objects_->counter;
}

const Comm& Checkpoint::comm() const {
  static const Comm none;
  return objects_ == nullptr ? none : *objects_->comm;
}

}  // namespace belay
