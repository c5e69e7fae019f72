// The plan of a save, and the sharding policy that groups its pieces.

#ifndef BELAY_PLAN_SAVE_PLANNER_H_
#define BELAY_PLAN_SAVE_PLANNER_H_

#include "belay/values/sharding_policy.h"
#include "plan/choose_ranks.h"
#include "plan/listed_ranks.h"

namespace belay {

// The function of the policy ShardByTask, which a plan recognizes by its type.
// The command has a copy of this code beside the library that it links: a
// lambda would have another type in each of them.
struct GroupByTask {
  StatusOr<Grouping> operator()(
      const std::vector<ShardableTensor>& pieces) const;
};

// Errors: InvalidArgument - the policy has no description.
Status CheckDescription(const ShardingPolicy& policy);

// Returns whether equal parameters promise an equal result, so that a plan may
// be reused.
bool VouchesForItself(const ShardingPolicy& policy);

// Returns whether the policy is ShardByTask, which need not be called.
bool MakesOneGroup(const ShardingPolicy& policy);

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

// The pieces of one task, at least one, maybe of several replicas.
using TaskPieces = std::vector<ShardableTensor>;

// Calls the policy for each task. Errors: those of ApplyPolicy.
StatusOr<std::vector<Grouping>> ApplyToTasks(
    const ShardingPolicy& policy, const std::vector<TaskPieces>& tasks);

// Makes the files for the groups of `pieces`, and the teams that write them;
// `nodes` has the node of each rank:
//   kShared   one team; file i holds group i of all ranks
//   kPerNode  a team per node; its file i holds group i of its ranks
//   kPerTask  a team per rank; its file i holds its group i
// Files are numbered by team, then by group; teams by the lowest rank that
// writes. The ranks of a team create its files in turn. Shared files start with
// rank 1 and end with rank 0, which makes the index at that time.
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
