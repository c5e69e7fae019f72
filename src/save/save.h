// A save to a directory of any name, optionally with an object graph.

#ifndef BELAY_SAVE_SAVE_H_
#define BELAY_SAVE_SAVE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "belay/comm.h"
#include "belay/options.h"
#include "belay/state.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "graph/object_graph.h"
#include "pipeline/stages.h"
#include "state/rank_rows.h"

namespace belay {

// The values to save, and where to save them.
struct SaveJob {
  std::string path;  // of the committed directory
  int64_t step = 0;
  const State& state;
  // Points to `state` if the caller does not need it after listing. Its shards,
  // of which there may be very many, are then moved instead of copied. May be
  // null.
  State* spent = nullptr;
  // The graph whose attributes are the keys of `state`. Rank 0 only, or null.
  const ObjectGraph* graph = nullptr;
  // Equal on all ranks, and for equal graphs; 0 without a graph.
  uint64_t graph_fingerprint = 0;
  // Row counts of arrays that consist of the ranks' rows but are not listed as
  // such, as in a copy. Rank 0 only.
  std::vector<KeyRows> rows = {};
  // Stores the layouts of `state` unchecked: in a copy, they describe the ranks
  // that first saved the values.
  bool keeps_layouts = false;
  StageCosts before = {};  // costs of stages before this save
  // Called with the number of bytes that this rank has just written; an error
  // ends the save. May be empty.
  std::function<Status(int64_t)> progress = nullptr;
  // Set when a save that has reached the file system ends: to false if it
  // failed because values were lost or a function of the program failed,
  // otherwise to true. Meaningful on rank 0 only. May be null.
  bool* at_files = nullptr;
};

// Saves the values of a job. Collective. Path, step and options must be equal
// on all ranks, as for Save.
// Errors: those of Save; InvalidArgument - a path that cannot be a checkpoint.
Agreed<SaveResult> SaveAt(const Comm& comm, const SaveJob& job,
                          const SaveOptions& options);

// Returns a SaveJob::progress that calls `progress` with the sum of bytes so
// far, at most `total`. Returns an empty function if `progress` is empty.
// Borrows `progress`.
std::function<Status(int64_t)> ProgressUpTo(
    int64_t total,
    const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_H_
