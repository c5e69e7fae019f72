// Stations gather, plan and orders of a save: what every rank needs to know to
// do its part.

#ifndef BELAY_CHECKPOINT_PLANNED_SAVE_H_
#define BELAY_CHECKPOINT_PLANNED_SAVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/options.h"
#include "belay/status.h"
#include "h5/dataset.h"
#include "model/plan.h"
#include "parallel/collective.h"
#include "store/skeleton.h"

namespace belay {

// One rank's view of a SavePlan.
struct PlannedSave {
  // Equal on all ranks.
  int64_t num_arrays = 0;
  int64_t num_files = 0;
  int64_t num_blocks = 0;
  int64_t rounds = 0;
  int64_t mean_run_bytes = 0;
  // This rank's part. `datasets` and `calls` describe its file; they are there
  // on the rank that creates the file, and for the hdf5 transfer on all.
  std::string file_name;  // of a shared file on all ranks; may be empty
  bool is_creator = false;
  RankWrites writes;  // extents relative to the file, once Place has run
  std::vector<h5::DatasetSpec> datasets;
  std::vector<int32_t> calls;
  // Rank 0 only: the plan, and what the index will say.
  SavePlan plan;
  SavedCheckpoint saved;
};

// Gathers the shards of all ranks and plans on rank 0. Collective; agreed.
// Errors: those of PlanSave.
StatusOr<PlannedSave> PlanTogether(Team& team,
                                   const std::vector<ShardInfo>& shards,
                                   const SaveOptions& options);

// Tells everyone where the datasets lie, once the skeletons exist. `skeleton`
// is that of the file that this rank created, if any. Collective; agreed.
Status Place(Team& team, const Skeleton& skeleton, PlannedSave& planned);

}  // namespace belay

#endif  // BELAY_CHECKPOINT_PLANNED_SAVE_H_
