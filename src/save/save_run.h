// One save on one rank, and the stages that have a file of their own.

#ifndef BELAY_SAVE_SAVE_RUN_H_
#define BELAY_SAVE_SAVE_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belay/save_restore.h"
#include "format/paths.h"
#include "graph/object_graph.h"
#include "io/files/stripe_counter.h"
#include "io/files/striping.h"
#include "mpi/collective.h"
#include "pipeline/stages.h"
#include "save/plan_cache.h"
#include "values/handlers/handler_table.h"
#include "values/rows/id_block.h"
#include "values/value_listing.h"

namespace belay {

// Its arguments, and what the stages hand on.
struct SaveRun {
  Team team;
  Stages stages;
  std::string path;  // the committed one
  int64_t step;
  const SaveOptions& options;
  std::shared_ptr<const HandlerTable> handlers;
  HandlerListing listing = {};  // `shards` are its own, and borrow from it
  std::vector<Shard> shards;
  const ObjectGraph* graph = nullptr;  // rank 0 only, or null
  uint64_t nonce = 0;
  bool reuse = false;  // the plan of `cache` holds
  CachedPlan& cache;   // the caller's, or one of our own
  bool keep;           // the caller wants it kept
  std::vector<uint32_t> registers;
  std::vector<IdBlock> id_blocks = {};                // of this rank
  StripeCounts stripes = {};                          // of this rank
  std::function<Status(int64_t)> progress = nullptr;  // as of SaveJob
  bool is_managed = false;      // a manager's, which has seen all hosts before
  Status progress_status = {};  // what it returned
  Status sync_status = {};      // of this rank, told at the next agreement
  // Rank 0 only.
  bool began = false;
  bool has_directory = false;  // it has made the one in progress
  bool has_index = false;
  std::string metadata = {};  // as MetadataText; empty: none
  std::vector<TypeHandlerPtr> finalizers;
  bool handler_failed = false;
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

// Finds the handlers that are to finish this save, before anything is written.
// Rank 0 only.
// Errors: InvalidArgument - a rank has used one that rank 0 does not have.
Status FindFinalizers(SaveRun& run);

// What this rank adds to the sum that is 0 if all replicas are equal: of a plan
// that is used again. Local.
uint64_t SumReplicas(const SaveRun& run);

// Finds where shards that are rows stand in their arrays, for a plan that is
// new. Adds on rank 0 how many rows of each key each rank has. Collective;
// agreed.
// Errors: those of MergeRowCounts.
Status PlaceRowsTogether(SaveRun& run, std::vector<KeyRows>& keys);

// Lets them stand there, in each save. Collective; agreed.
// Errors: those of TakeIds, PackWindow, FillBlocks and CheckFilled.
Status TakePlaces(SaveRun& run);

// Stage compare, for a plan that is new. Collective; agreed.
// Errors: those of NameDifferentReplicas.
Status CompareReplicas(SaveRun& run);

// Says which replicas are not equal, when a sum has told that some are not.
// Collective; agreed.
// Errors: InvalidArgument - ranks hold other values of the same box.
Status NameDifferentReplicas(SaveRun& run);

// Lets them do so; all bytes are in place. Rank 0 only.
// Errors: what a handler returned or threw.
Status FinalizeHandlers(SaveRun& run);

// Returns how the files that this rank has made are striped, as far as that
// matters: where nodes share them. Local.
std::vector<Striping> StripingsOfMine(const SaveRun& run);

// Combines the counters of the result. Collective; agreed.
Status CombineSaveCounters(SaveRun& run);

// Writes the index as far as it is known, while others write. Rank 0 only.
Status PrepareIndex(SaveRun& run);

// Stage write: all bytes into the data files. Collective; agreed.
Status WriteStage(SaveRun& run);

// Stage verify: sizes, holes, and on request every byte. Collective; agreed.
Status VerifyStage(SaveRun& run);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_RUN_H_
