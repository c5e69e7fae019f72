// One save on one rank, and the stations that have a file of their own.

#ifndef BELAY_CHECKPOINT_SAVE_RUN_H_
#define BELAY_CHECKPOINT_SAVE_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/save_restore.h"
#include "checkpoint/plan_cache.h"
#include "checkpoint/stations.h"
#include "graph/object_graph.h"
#include "h5/handle.h"
#include "parallel/collective.h"
#include "store/paths.h"

namespace belay {

// Its arguments, and what the stations hand on.
struct SaveRun {
  Team team;
  Stations stations;
  std::string path;  // the committed one
  int64_t step;
  const SaveOptions& options;
  std::vector<Shard> shards;
  const ObjectGraph* graph = nullptr;  // rank 0 only, or null
  uint64_t nonce = 0;
  bool reuse = false;      // the plan of `cache` holds
  PlanCache::Impl& cache;  // the caller's, or one of our own
  bool keep;               // the caller wants it kept
  std::vector<uint32_t> registers;
  // Rank 0 only.
  bool began = false;
  bool has_index = false;
  h5::Handle index;       // started, not filled
  bool is_owner = false;  // of the directory in progress, when committing
  bool committed = false;
  SaveResult result;

  // Where the files are until the commit. Local.
  std::string Directory() const { return InProgressPath(path); }
  // Local.
  std::string IndexPath() const { return JoinPath(Directory(), IndexName()); }
  // Local.
  std::string DataPath(const PlannedFile& file) const {
    return JoinPath(Directory(), file.name);
  }
};

// Fills the index as far as it is known, while others write. Rank 0 only.
Status PrepareIndex(SaveRun& run);

// Station write: all bytes into the data files. Collective; agreed.
Status WriteStation(SaveRun& run);

// Station verify: sizes, holes, and on request every byte. Collective; agreed.
Status VerifyStation(SaveRun& run);

}  // namespace belay

#endif  // BELAY_CHECKPOINT_SAVE_RUN_H_
