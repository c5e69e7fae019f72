// The objects of a Checkpoint, and what it remembers between two calls.

#ifndef BELAY_OBJECTS_TRACKED_OBJECTS_H_
#define BELAY_OBJECTS_TRACKED_OBJECTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "belay/checkpoint.h"
#include "bytes/list_exchange.h"
#include "graph/live_graph.h"
#include "graph/match/graph_match.h"
#include "graph/object_graph.h"
#include "restore/restore_source.h"

namespace belay {

// What came of merging the graphs of all ranks, and this rank's part in it.
struct MergeResult {
  uint64_t own = 0;     // fingerprint of this rank's graph
  uint64_t merged = 0;  // of all ranks' together; 0: nothing is known
  // Keys of this rank that are others in the merged graph.
  absl::flat_hash_map<std::string, std::string> renames;
  ObjectGraph graph;     // the merged one; rank 0 only
  SentLists sent_lists;  // when merging
};

// A restore that later objects may still get values from.
struct PendingObjects {
  RestoreSource source;
  Restoration restoration;
  // Every stored value was used by some rank. Equal on all ranks.
  bool is_used_up = false;
};

// What a Checkpoint is made of.
struct TrackedObjects {
  // Gone with it: a save in the background may outlive the objects.
  std::shared_ptr<bool> is_there = std::make_shared<bool>(true);
  const Comm* comm = nullptr;
  ObjectRef root;
  std::vector<Attached> attached;
  // A child of the root as soon as anything was saved or restored.
  int64_t counter = 0;
  bool has_counter = false;
  // The counter was restored, perhaps from a step that is not the newest, and
  // no step has been saved since.
  bool is_counter_restored = false;
  // For saving.
  PlanCache plan_cache;
  MergeResult merge;
  // For restoring; oldest first.
  std::vector<PendingObjects> pending;
  RestoredNumbers restored;
  int64_t num_restores = 0;

  // Asks all objects for their descriptions. Local. `handlers` as in
  // SaveOptions.
  StatusOr<LiveGraph> Track(const TypeHandlerRegistry* handlers);
};

// Checks that a Checkpoint was not moved from. Local, and equal on all ranks of
// a sound program.
// Errors: FailedPrecondition - it was.
Status CheckMoved(const TrackedObjects* objects, std::string_view operation);

}  // namespace belay

#endif  // BELAY_OBJECTS_TRACKED_OBJECTS_H_
