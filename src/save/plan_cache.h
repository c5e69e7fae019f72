// What PlanCache keeps between two saves.

#ifndef BELAY_SAVE_PLAN_CACHE_H_
#define BELAY_SAVE_PLAN_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "belay/save_restore.h"
#include "io/index/index_file.h"
#include "io/index/skeleton.h"
#include "pipeline/gather_lists.h"
#include "plan/stored/stored_form.h"
#include "save/kept_listing.h"
#include "save/planned_save.h"
#include "values/rows/row_counts.h"

namespace belay {

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

// The plan of a cache; one that was moved from begins anew. Local.
CachedPlan& PlanOf(PlanCache& cache);

}  // namespace belay

#endif  // BELAY_SAVE_PLAN_CACHE_H_
