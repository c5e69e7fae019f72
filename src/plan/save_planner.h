// Plans a save, and applies the sharding policy that groups its pieces.

#ifndef BELAY_PLAN_SAVE_PLANNER_H_
#define BELAY_PLAN_SAVE_PLANNER_H_

#include "belay/values/sharding_policy.h"
#include "plan/choose_ranks.h"
#include "plan/listed_ranks.h"

namespace belay {

// The function of the policy ShardByTask. A plan recognizes it by its type, so
// it is not a lambda: the command-line tool has a copy of this code besides the
// library that it links, and a lambda would have a different type in each.
struct GroupByTask {
  StatusOr<Grouping> operator()(
      const std::vector<ShardableTensor>& pieces) const;
};

// Errors: InvalidArgument - the policy has no description.
Status CheckDescription(const ShardingPolicy& policy);

// Returns true if equal parameters promise equal results, so that a plan can be
// reused.
bool VouchesForItself(const ShardingPolicy& policy);

// Returns whether the policy is ShardByTask, which need not be called.
bool MakesOneGroup(const ShardingPolicy& policy);

// Returns the box with its offset relative to a corner.
Box FromCorner(Box box, const Shape& corner);

// Compares the keys of values that every rank must hold. Returns how the lowest
// rank that differs from rank 0 differs; "" if none does. Pieces of arrays, and
// values with the program's handlers, can be on any ranks.
std::string FindKeysOfSomeRanks(const ListedRanks& listed);

// The save planner checks that every array is covered exactly. It chooses the
// writer of each replica and the group, file and dataset of each piece, and
// divides the work into rounds. The same input always gives the same plan.

// The maximum number of runs of a rank per round: in a transfer, a short run
// costs about 20 times its bytes.
inline constexpr int64_t kMaxRunsPerRound = int64_t{1} << 18;

struct SavePlanOptions {
  FileLayout file_layout = FileLayout::kShared;
  ArrayLayout array_layout = ArrayLayout::kAuto;
  ShardingPolicy sharding_policy = ShardByTask();
  std::vector<SaveArgsFor> args = {};  // the planner does not use their dtypes
  // The maximum number of bytes of a rank per round; at least 16.
  int64_t round_bytes = int64_t{256} << 20;
};

// The pieces of one task: at least one piece, possibly of several replicas.
using TaskPieces = std::vector<ShardableTensor>;

// Calls the policy for each task.
// Errors: those of ApplyPolicy.
StatusOr<std::vector<Grouping>> ApplyToTasks(
    const ShardingPolicy& policy, const std::vector<TaskPieces>& tasks);

// Adds the files for the groups of `pieces` to the plan, and the teams of ranks
// that write them; `nodes` has the node of each rank:
//   kShared   one team; file i holds group i of all ranks
//   kPerNode  a team per node; its file i holds group i of its ranks
//   kPerTask  a team per rank; its file i holds its group i
// Files are numbered by team, then by group. Teams are numbered by the lowest
// rank that writes. The ranks of a team take turns creating its files. For
// shared files, rank 1 is first and rank 0 is last, because rank 0 also creates
// the index.
// Errors: InvalidArgument - more than 2^20 files.
Status NumberFiles(const std::vector<int32_t>& nodes, SavePlan& plan,
                   std::vector<WritePiece>& pieces);

// Errors: those of CheckCoverage, and InvalidArgument - a key that is empty or
//   has a NUL byte; of several, the first by key. Then those of ApplyPolicy,
//   then those of ChunkAsAsked.
StatusOr<SavePlan> PlanSave(const ListedRanks& listed,
                            const SavePlanOptions& options);

}  // namespace belay

#endif  // BELAY_PLAN_SAVE_PLANNER_H_
