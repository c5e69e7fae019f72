// The plan of a save.

#ifndef BELAY_PLAN_SAVE_PLANNER_H_
#define BELAY_PLAN_SAVE_PLANNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/save_args.h"
#include "belay/values/sharding_policy.h"
#include "plan/choose_ranks.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"

namespace belay {

// The box counted from the corner of its dataset.
Box FromCorner(Box box, const Shape& corner);

// Values that are meant to be on all ranks, and that some ranks lack.
//
// In:  what all ranks have listed. Out: a text that says how one rank differs
//      from rank 0.

// What the lowest rank with other such values than rank 0 has or lacks; empty
// if there is none. Pieces of arrays, and values of the program's handlers, may
// be on any ranks.
std::string FindKeysOfSomeRanks(const ListedRanks& listed);

// The save planner: what all ranks list -> SavePlan.
//
// Pure: no I/O, no messages, the same plan for the same input. It checks that
// every array is covered exactly, chooses who writes each replica, which group,
// file and dataset each piece goes to, and cuts the work into rounds.

// Most runs that one rank writes in one round: each costs a transfer some 20
// times the bytes of a short run.
inline constexpr int64_t kMaxRunsPerRound = int64_t{1} << 18;

struct SavePlanOptions {
  FileLayout file_layout = FileLayout::kShared;
  ArrayLayout array_layout = ArrayLayout::kAuto;
  ShardingPolicy sharding_policy = ShardByTask();
  std::vector<SaveArgsFor> args = {};  // of which the chunks are looked at
  // Most bytes that one rank writes in one round, at least 16.
  int64_t round_bytes = int64_t{256} << 20;
};

// Makes the plan.
// Errors: as CheckCoverage, and InvalidArgument for an empty key or one with a
//   NUL byte; of several, the first by key. After these, as ApplyPolicy, then
//   as ChunkAsAsked.
StatusOr<SavePlan> PlanSave(const ListedRanks& listed,
                            const SavePlanOptions& options);

}  // namespace belay

#endif  // BELAY_PLAN_SAVE_PLANNER_H_
