// The state of a Checkpoint.

#ifndef BELAY_OBJECTS_TRACKED_OBJECTS_H_
#define BELAY_OBJECTS_TRACKED_OBJECTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "belay/checkpoint.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/list_exchange.h"
#include "core/status_macros.h"
#include "graph/graph_match.h"
#include "graph/live_graph.h"
#include "graph/object_graph.h"
#include "restore/restore_stages.h"
#include "save/save.h"

namespace belay {

// The merged graph of all ranks, and this rank's part in it.
struct MergeResult {
  uint64_t own = 0;     // fingerprint of this rank's graph
  uint64_t merged = 0;  // fingerprint of the merged graph; 0: none
  // Maps keys of this rank that differ in the merged graph to the merged keys.
  absl::flat_hash_map<std::string, std::string> renames;
  ObjectGraph graph;     // merged; rank 0 only
  SentLists sent_lists;  // in the last merge
};

// A restore with values that objects created later may still read.
struct PendingObjects {
  RestoreSource source;
  Restoration restoration;
  // Each stored value has been used by some rank. Equal on all ranks.
  bool is_used_up = false;
};

struct TrackedObjects {
  // Expires with the objects: a save in the background may outlive them.
  std::shared_ptr<bool> is_there = std::make_shared<bool>(true);
  const Comm* comm = nullptr;
  ObjectRef root;
  std::vector<Attached> attached;
  // The save counter, a child of the root after the first save or restore.
  int64_t counter = 0;
  bool has_counter = false;
  // The counter was restored, perhaps not from the newest step, and no step has
  // been saved since.
  bool is_counter_restored = false;
  // For saving.
  PlanCache plan_cache;
  MergeResult merge;
  // For restoring; oldest first.
  std::vector<PendingObjects> pending;
  RestoredNumbers restored;
  int64_t num_restores = 0;

  // Describes all objects. `handlers` as in SaveOptions.
  StatusOr<LiveGraph> Track(const TypeHandlerRegistry* handlers);
};

// Checks that a Checkpoint was not moved from. Local, and equal on all ranks of
// a correct program.
// Errors: FailedPrecondition - it was moved from.
Agreed<> CheckMoved(const TrackedObjects* objects, std::string_view operation);

// Agrees on `live`. Updates `merge` with GatherLists if the graph of any rank
// has changed; otherwise one reduction is enough. Collective; agreed.
// Errors: that of `live`, and those of MergeGraphs.
Agreed<> MergeTogether(CommContext& context, const StatusOr<LiveGraph>& live,
                       MergeResult& merge);

// The objects of this rank as a State, which borrows from `live`, and the costs
// of merging the graphs.
struct PreparedObjects {
  LiveGraph live;
  State state;
  StageCosts costs;
};

// Describes all objects, and merges their graphs. Collective; agreed.
// Errors: those of descriptions.
Agreed<PreparedObjects> PrepareObjects(TrackedObjects& objects,
                                       const std::string& path,
                                       const SaveOptions& options);

// Returns the number in a step name such as "step_00000012"; 0 for other names.
int64_t FindStepNumber(const std::string& path);

// Saves all objects with `save`, such as SaveAt. `at_files` as in SaveJob; may
// be null. Collective; agreed.
// Errors: those of PrepareObjects, and those of `save`.
template <typename Save>
std::invoke_result_t<Save, const SaveJob&, const SaveOptions&> SaveObjects(
    TrackedObjects& objects, const std::string& path,
    const SaveOptions& options, bool* at_files, const Save& save) {
  BELAY_ASSIGN_OR_RETURN_AGREED(PreparedObjects prepared,
                                PrepareObjects(objects, path, options));
  SaveOptions with_cache = options;
  if (options.cache == nullptr) with_cache.cache = &objects.plan_cache;
  const bool is_root = objects.comm->rank() == 0;
  return save({.path = path,
               .step = FindStepNumber(path),
               .state = prepared.state,
               .graph = is_root ? &objects.merge.graph : nullptr,
               .graph_fingerprint = objects.merge.merged,
               .before = std::move(prepared.costs),
               .at_files = at_files},
              with_cache);
}

// Increments the save counter and saves all objects. An error undoes the
// increment. Collective; agreed.
template <typename Save>
auto SaveStepBy(TrackedObjects& objects, const std::string& path,
                const SaveOptions& options, bool* at_files, const Save& save) {
  const bool had_counter = std::exchange(objects.has_counter, true);
  ++objects.counter;
  auto saved = SaveObjects(objects, path, options, at_files, save);
  if (!saved.ok()) {
    --objects.counter;
    objects.has_counter = had_counter;
  }
  return saved;
}

// SaveStepBy, with SaveAt. Collective; agreed.
Agreed<SaveResult> SaveStep(TrackedObjects& objects, const std::string& path,
                            const SaveOptions& options, bool& at_files);

// The number of the next step in a directory.
struct NextStep {
  int64_t restored = 0;  // the save counter as it was
  int64_t newest = 0;    // of the steps in the directory
  int64_t passed = 0;    // the step gets the number after this one
};

// Finds the number of the next step, and sets the counter to the number before
// it. Collective; agreed.
Agreed<NextStep> PassNewerSteps(TrackedObjects& objects, const std::string& dir,
                                const SaveOptions& options);

// Returns a function for the end of a step that updates the save counter,
// unless another save or restore has changed it since.
std::function<void(bool ok)> EndOfStep(TrackedObjects& objects,
                                       const NextStep& next);

// Returns a warning if the number is unusual, else "".
std::string NumberWarning(const std::string& dir, const NextStep& next);

}  // namespace belay

#endif  // BELAY_OBJECTS_TRACKED_OBJECTS_H_
