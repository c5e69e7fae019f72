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

// The values to save, and where to.
struct SaveJob {
  std::string path;  // of the committed directory
  int64_t step = 0;
  const State& state;
  // Points to `state` if it is not needed after listing: its shards are moved
  // out of it, because there may be very many. May be null.
  State* spent = nullptr;
  // The graph whose attributes are the keys of `state`. Rank 0 only, or null.
  const ObjectGraph* graph = nullptr;
  // Equal on all ranks, and for equal graphs; 0 without one.
  uint64_t graph_fingerprint = 0;
  // Row counts of arrays that are rows of ranks but not listed as such, as in a
  // copy. Rank 0 only.
  std::vector<KeyRows> rows = {};
  // Store the layouts of `state` unchecked: in a copy they are those of the
  // ranks that first saved it.
  bool keeps_layouts = false;
  StageCosts before = {};  // costs of stages before this save
  // Called with the bytes that this rank has just written; an error ends the
  // save. May be empty.
  std::function<Status(int64_t)> progress = nullptr;
  // Set to true if the save has reached the file system, unless a function of
  // the program fails then. Only rank 0's counts. May be null.
  bool* at_files = nullptr;
};

// Saves the values of a job. Collective. Path, step and options must be equal
// on all ranks, as for Save.
// Errors: those of Save; InvalidArgument - a path that cannot be a checkpoint.
Agreed<SaveResult> SaveAt(const Comm& comm, const SaveJob& job,
                          const SaveOptions& options);

// Returns a SaveJob::progress that calls `progress` with the sum of bytes, at
// most `total`; empty if `progress` is empty. Borrows it.
std::function<Status(int64_t)> ProgressUpTo(
    int64_t total,
    const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_H_
