// One rank's plan of a save, and the cache that keeps it for the next save.

#ifndef BELAY_SAVE_RANK_PLAN_H_
#define BELAY_SAVE_RANK_PLAN_H_

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
#include "hdf5/file.h"
#include "mpi/collective.h"
#include "pipeline/listing.h"
#include "plan/plan.h"
#include "plan/stored_values.h"
#include "save/transfer_choice.h"
#include "state/rank_rows.h"
#include "state/state.h"
#include "state/type_handlers.h"
#include "state/value_listing.h"
#include "storage/file_system.h"
#include "storage/index_file.h"
#include "storage/skeleton.h"

namespace belay {

// --- listed shards ---

// Everything that determines what a save lists, except the lengths of
// containers and strings.
struct ListingOrigin {
  StateVersion state;
  std::shared_ptr<const HandlerTable> handlers;
  uint64_t setting = 0;  // fingerprint of the options, the ranks and the job

  bool operator==(const ListingOrigin&) const = default;
};

// A shard whose elements are held by an object, which may move or resize them
// before the next save.
struct MovingShard {
  size_t shard = 0;
  size_t text_bytes = 0;  // length of a string
};

// The shards of one rank. The next save of the same State reuses them.
struct ListedShards {
  ListingOrigin origin;
  std::vector<Shard> shards;
  std::vector<bool> on_all_ranks;  // from FindOnAllRanks; empty: not needed
  std::vector<ListedValue> values;
  std::optional<std::vector<MovingShard>> moving;  // unset: list anew each time
};

// Finds the shards that may move before the next save. Returns nullopt if
// handlers or rows take part, because these must be listed anew in each save.
std::optional<std::vector<MovingShard>> FindMoving(
    const HandlerListing& listing, const std::vector<Shard>& shards);

// Finds all moved elements again. Returns false if a shard's dtype, shape or
// length has changed; some shards may then be updated already. Requires
// `moving`.
bool FindMovedElements(ListedShards& listed);

// --- plan ---

// One data file, as seen by a rank that takes part in writing it.
struct PlannedFile {
  std::string name;
  bool is_creator = false;
  Space space = Space::kReserved;
  int64_t rounds = 0;   // equal on all ranks of the team
  RankWrites writes;    // extents relative to the file, after Place
  RankWrites filtered;  // writes to datasets with filters
  // Known on the rank that creates the file. Known on all ranks with the hdf5
  // transfer or if a dataset has filters.
  std::vector<h5::DatasetSpec> datasets;
  std::vector<int32_t> calls;  // per dataset
  std::vector<Shape> corners;  // per dataset
  Striping striping;           // after Place

  // HasFilters returns true if any dataset has filters, IsLossless if all
  // filters are lossless. Both require `datasets`.
  bool HasFilters() const;
  bool IsLossless() const;
};

// One rank's view of the SavePlan. It is valid for every save of the same
// structure.
struct RankPlan {
  // Fingerprint of this rank's shards and of the options that shape the plan.
  uint64_t fingerprint = 0;
  // Equal on the ranks that made the plan together, and on no others.
  uint64_t plan_id = 0;
  int64_t num_reuses = 0;                // equal on ranks with equal plan_id
  std::vector<StoredForm> forms;         // per shard; empty: no conversion
  std::vector<RowPlacement> placements;  // of the shards that are rows
  bool any_ids = false;                  // on any rank
  // The shards of the last save; unset if they must be listed anew.
  std::optional<ListedShards> listing;

  // Equal on all ranks.
  int64_t num_arrays = 0;
  int64_t num_files = 0;
  int64_t num_blocks = 0;
  int64_t rounds = 0;
  int64_t mean_run_bytes = 0;
  bool has_filters = false;  // any dataset
  std::vector<std::string> warnings;
  PlannedStripes stripes;  // after Place

  // This rank's part: its replicas, its team, and the team's files in the order
  // of writing.
  ReplicaCheck replicas;
  int32_t team = -1;  // -1: none
  // True if this rank syncs the files on behalf of the `node_ranks` ranks of
  // its team on its node.
  bool is_syncer = false;
  int32_t node_ranks = 1;
  std::vector<PlannedFile> files;
  // Skeletons of the files that this rank creates and, on rank 0, the index.
  // Shared with the thread that writes them in a background save.
  std::vector<std::shared_ptr<const Skeleton>> skeletons;
  std::shared_ptr<const IndexImage> index;

  // Rank 0 only: the plan of all ranks and the content of the index. Until
  // Place is called, `saved` has the arrays, datasets and files of `global`.
  SavePlan global;
  std::vector<int32_t> nodes;  // per rank; cleared by Place
  std::string keys_of_some;    // from FindKeysOfSomeRanks
  SavedCheckpoint saved;
  std::vector<std::string> work;  // what each rank writes, for messages
};

// Gathers the shards and values that all ranks list, makes the plan on rank 0,
// and gives each rank its part in `plan`. `mine.node` is set here. `directory`
// is the parent of the step. Collective; agreed.
// Errors: those of PlanSave and MergeValues.
Agreed<> PlanTogether(CommContext& context, const std::string& directory,
                      RankShards mine, const SaveOptions& options,
                      SentLists& sent_lists, RankPlan& plan);

// Sends the lengths of the files that this rank has created to rank 0. Needed
// with filters, because lengths are then known only after writing. Collective;
// agreed.
Agreed<> GatherFileSizes(CommContext& context, const std::vector<int64_t>& mine,
                         RankPlan& plan);

// Gives every rank the offsets of its datasets. Requires that all skeletons
// exist. `stripings` has one element per file that this rank created.
// Collective; agreed.
Agreed<> Place(CommContext& context, const std::vector<Striping>& stripings,
               RankPlan& plan);

// --- cache ---

struct CachedPlan {
  // The plan of the last save that passed its list stage. Unset if that save
  // failed or used filters, or if its sharding policy does not say what its
  // result depends on.
  std::optional<RankPlan> plan;
  SentLists sent_lists;             // used when planning
  std::set<std::string> warned_of;  // values of RankPlan::keys_of_some
  // Expires with the cache, because a background save may outlive the cache.
  std::shared_ptr<bool> is_there = std::make_shared<bool>(true);
};

// Returns the plan of a cache. Creates one if the cache was moved from.
CachedPlan& PlanOf(PlanCache& cache);

}  // namespace belay

#endif  // BELAY_SAVE_RANK_PLAN_H_
