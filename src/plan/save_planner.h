// The plan of a save.

#ifndef BELAY_PLAN_SAVE_PLANNER_H_
#define BELAY_PLAN_SAVE_PLANNER_H_

#include "belay/values/sharding_policy.h"
#include "plan/choose_ranks.h"
#include "plan/listed_ranks.h"

namespace belay {

// Returns the box counted from a corner.
Box FromCorner(Box box, const Shape& corner);

// Returns how the lowest rank that differs from rank 0 does so, in values that
// must be on all ranks; "" if none does. Pieces of arrays, and values of the
// program's handlers, may be on any ranks.
std::string FindKeysOfSomeRanks(const ListedRanks& listed);

// The save planner checks that every array is covered exactly, chooses who
// writes each replica, the group, file and dataset of each piece, and cuts the
// work into rounds. It returns the same plan for the same input.

// The most runs of a rank per round: each costs a transfer some 20 times the
// bytes of a short run.
inline constexpr int64_t kMaxRunsPerRound = int64_t{1} << 18;

struct SavePlanOptions {
  FileLayout file_layout = FileLayout::kShared;
  ArrayLayout array_layout = ArrayLayout::kAuto;
  ShardingPolicy sharding_policy = ShardByTask();
  std::vector<SaveArgsFor> args = {};  // of which the chunks are looked at
  // The most bytes of a rank per round, at least 16.
  int64_t round_bytes = int64_t{256} << 20;
};

// Errors: those of CheckCoverage, and InvalidArgument - a key that is empty or
//   has a NUL byte; of several, the first by key. Then those of ApplyPolicy,
//   then those of ChunkAsAsked.
StatusOr<SavePlan> PlanSave(const ListedRanks& listed,
                            const SavePlanOptions& options);

}  // namespace belay

#endif  // BELAY_PLAN_SAVE_PLANNER_H_
