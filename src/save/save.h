// A save whose directory has any name, and which may have an object graph.

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
#include "state/rank_rows.h"

namespace belay {

// What to save, where, and as which step.
struct SaveJob {
  std::string path;  // of the committed directory
  int64_t step = 0;
  const State& state;
  // `state` itself, if nobody needs it when it is listed: its shards are moved
  // out of it, as there may be very many. May be null.
  State* spent = nullptr;
  // Whose attributes have the keys of `state`, all of them. Rank 0 only, or
  // null.
  const ObjectGraph* graph = nullptr;
  // Equal on all ranks, and for equal graphs; 0 without one.
  uint64_t graph_fingerprint = 0;
  // Of arrays that are rows of ranks without being listed as such, in a copy.
  // Rank 0 only.
  std::vector<KeyRows> rows = {};
  // The layouts of `state` are those of the ranks that first saved it, as in a
  // copy: they are stored and not looked at.
  bool keeps_layouts = false;
  // What was sent for this save before, as in CommContext.
  int64_t messages = 0;
  int64_t agreement_bytes = 0;
  std::vector<StageTime> stages = {};
  // Is told of this rank's bytes as they are written; an error ends the save.
  // May be empty.
  std::function<Status(int64_t)> progress = nullptr;
  // Set if the save has come to the file system, unless what fails then is a
  // handler of the program. Rank 0's counts. May be null.
  bool* at_files = nullptr;
};

// Save, of a job. Collective. Same on all ranks: path, step, and options as in
// Save.
// Errors: those of Save; InvalidArgument - a path that cannot be a checkpoint.
Agreed<SaveResult> SaveAt(const Comm& comm, const SaveJob& job,
                          const SaveOptions& options);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_H_
