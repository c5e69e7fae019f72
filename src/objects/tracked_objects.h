// The objects of a Checkpoint, and what it remembers between two calls.

#ifndef BELAY_OBJECTS_TRACKED_OBJECTS_H_
#define BELAY_OBJECTS_TRACKED_OBJECTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "belay/checkpoint.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/list_exchange.h"
#include "graph/graph_match.h"
#include "graph/live_graph.h"
#include "graph/object_graph.h"
#include "restore/restore_stages.h"
#include "save/save.h"

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

  // Asks all objects for their descriptions. `handlers` as in
  // SaveOptions.
  StatusOr<LiveGraph> Track(const TypeHandlerRegistry* handlers);
};

// Checks that a Checkpoint was not moved from. Local, and equal on all ranks of
// a sound program.
// Errors: FailedPrecondition - it was.
Agreed<> CheckMoved(const TrackedObjects* objects, std::string_view operation);

// Saving the objects of a Checkpoint, for those who carry out the save in their
// own way.

// Carries out a save, such as SaveAt. Collective; agreed.
using SaveFunction =
    absl::FunctionRef<Agreed<>(const SaveJob& job, const SaveOptions& options)>;

// Makes a job of all objects as they are, and has it carried out. Collective;
// agreed. `at_files` as in SaveJob; may be null.
// Errors: those of descriptions, and those of `save`.
Agreed<> SaveObjects(TrackedObjects& objects, const std::string& path,
                     const SaveOptions& options, bool* at_files,
                     SaveFunction save);

// The same for a step that counts: one more than the save counter. On an error
// the counter is what it was. Collective; agreed.
Agreed<> SaveStepBy(TrackedObjects& objects, const std::string& path,
                    const SaveOptions& options, bool* at_files,
                    SaveFunction save);

// SaveStepBy, with SaveAt. Collective.
Agreed<SaveResult> SaveStep(TrackedObjects& objects, const std::string& path,
                            const SaveOptions& options, bool& at_files);

// Which number the next step of a directory gets.
struct NextStep {
  int64_t restored = 0;  // the save counter as it was
  int64_t newest = 0;    // of the steps in the directory
  int64_t passed = 0;    // the step gets the number behind this one
};

// Finds that number, and sets the counter to the one before it. Collective;
// agreed.
Agreed<NextStep> PassNewerSteps(TrackedObjects& objects, const std::string& dir,
                                const SaveOptions& options);

// What the end of a step means for the save counter, which has its number by
// now: nothing if another save or restore has changed that since.
std::function<void(bool ok)> EndOfStep(TrackedObjects& objects,
                                       const NextStep& next);

// Says what is unusual about the number, or nothing.
std::string NumberWarning(const std::string& dir, const NextStep& next);

}  // namespace belay

#endif  // BELAY_OBJECTS_TRACKED_OBJECTS_H_
