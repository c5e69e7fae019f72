// The plan of a save as every rank has it, and its cache.

#ifndef BELAY_SAVE_PLANNED_SAVE_H_
#define BELAY_SAVE_PLANNED_SAVE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "belay/options.h"
#include "belay/save_restore.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "hdf5/dataset.h"
#include "mpi/collective.h"
#include "pipeline/listing.h"
#include "plan/plan.h"
#include "plan/stored_values.h"
#include "save/save_list.h"
#include "save/transfer_choice.h"
#include "state/rank_rows.h"
#include "storage/index_file.h"
#include "storage/skeleton.h"
#include "storage/striping.h"

namespace belay {

// Stages gather, plan and orders of a save: what every rank needs to know to
// do its part.

// One data file, as a rank sees it that takes part in writing it.
struct PlannedFile {
  std::string name;
  bool is_creator = false;
  Space space = Space::kReserved;
  int64_t rounds = 0;   // equal on the ranks of the team
  RankWrites writes;    // extents relative to the file, once Place has run
  RankWrites filtered;  // those into datasets with filters
  // There on the rank that creates the file; on all for the hdf5 transfer and
  // where a dataset has filters.
  std::vector<h5::DatasetSpec> datasets;
  std::vector<int32_t> calls;  // one per dataset, as the next
  std::vector<Shape> corners;
  Striping striping;  // once Place has run, as PlannedSave::stripes

  // Whether any of its datasets has filters. Requires that it is known.
  bool HasFilters() const;
  // Whether all filters are lossless. Requires that it is known.
  bool IsLossless() const;
};

// One rank's view of a SavePlan.
struct PlannedSave {
  // Equal on all ranks.
  int64_t num_arrays = 0;
  int64_t num_files = 0;
  int64_t num_blocks = 0;
  int64_t rounds = 0;
  int64_t mean_run_bytes = 0;
  bool has_filters = false;  // of any dataset
  ReplicaCheck replicas;     // of this rank
  std::vector<std::string> warnings;
  PlannedStripes stripes;
  // This rank's part: the files of its team, in the order of writing.
  int32_t team = -1;  // -1: none
  // It syncs these files for the ranks of its team on its node: so many.
  bool is_syncer = false;
  int32_t node_ranks = 1;
  std::vector<PlannedFile> files;
  // Rank 0 only: the plan, and what the index will say. Until Place, `saved`
  // has the arrays, datasets and files of the plan.
  SavePlan plan;
  std::vector<int32_t> nodes;  // of each rank; as the plan, until Place
  std::string keys_of_some;    // as of FindKeysOfSomeRanks
  SavedCheckpoint saved;
  std::vector<std::string> work;  // what each rank writes, for messages
};

// Gathers what all ranks list and plans on rank 0. Collective; agreed. `mine`
// needs no node. `directory` is where the files are to be.
// Errors: those of PlanSave and MergeValues.
Agreed<PlannedSave> PlanTogether(CommContext& context,
                                 const std::string& directory, RankShards mine,
                                 const SaveOptions& options,
                                 SentLists& sent_lists);

// Tells rank 0 how long the files are that this rank has created, if that shows
// only when they are written. Collective; agreed.
Agreed<> GatherFileSizes(CommContext& context, const std::vector<int64_t>& mine,
                         PlannedSave& planned);

// Tells everyone where the datasets lie, once the skeletons exist. `skeletons`
// and `stripings` are those of the files that this rank created. Collective;
// agreed.
Agreed<> Place(
    CommContext& context,
    const std::vector<std::shared_ptr<const SkeletonImage>>& skeletons,
    const std::vector<Striping>& stripings, PlannedSave& planned);

// What PlanCache keeps between two saves.

// The plan of a save on one rank, which holds for every save of the same
// structure.
struct ReusablePlan {
  // Of this rank's shards and of the options that shape the plan.
  uint64_t fingerprint = 0;
  // Equal on the ranks that made the plan together, and on no others.
  uint64_t plan_id = 0;
  int64_t num_reuses = 0;         // equal where plan_id is
  std::vector<StoredForm> forms;  // of this rank's shards; empty: their own
  std::vector<RowPlacement> placements;  // of those that are rows
  bool any_ids = false;                  // on any rank
  // What this rank has listed; none if it has to be listed anew.
  std::optional<KeptListing> listing;
  PlannedSave planned;
  // Of the files that this rank creates, and of the index, on rank 0: shared
  // with the thread that writes them for a save in the background.
  std::vector<std::shared_ptr<const SkeletonImage>> skeletons;
  std::shared_ptr<const IndexImage> index;
};

struct CachedPlan {
  // Of the last save that came past its list stage, if that succeeded, has no
  // filters, and its sharding policy vouches for its result.
  std::optional<ReusablePlan> plan;
  SentLists sent_lists;             // when planning
  std::set<std::string> warned_of;  // as of PlannedSave::keys_of_some
  // Gone with it: a save in the background may outlive the cache.
  std::shared_ptr<bool> is_there = std::make_shared<bool>(true);
};

// The plan of a cache; one that was moved from begins anew.
CachedPlan& PlanOf(PlanCache& cache);

}  // namespace belay

#endif  // BELAY_SAVE_PLANNED_SAVE_H_
