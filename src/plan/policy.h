// Sharding policies, and the files in which ranks store the groups they make.

#ifndef BELAY_PLAN_POLICY_H_
#define BELAY_PLAN_POLICY_H_

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

// Asks the policy for the groups of each rank, cuts `pieces` accordingly and
// numbers their groups. The policy sees the pieces in the order in which the
// rank listed its shards, with their devices. Its warnings go to the plan.
// Errors: those of ApplyPolicy.
Status GroupPieces(const ShardingPolicy& policy, const ListedRanks& ranks,
                   SavePlan& plan, std::vector<WritePiece>& pieces);

// More than any directory should hold.
inline constexpr int64_t kMaxFiles = int64_t{1} << 20;

// Makes the files for the groups of `pieces`, and the teams that write them;
// `nodes` has the node of each rank:
//   kShared   one team; file i holds group i of all ranks
//   kPerNode  a team per node; its file i holds group i of its ranks
//   kPerTask  a team per rank; its file i holds its group i
// Files are numbered by team, then by group; teams by the lowest rank that
// writes. The ranks of a team create its files in turn. Shared files start with
// rank 1 and end with rank 0, which makes the index at that time.
// Errors: InvalidArgument - more than kMaxFiles files.
Status NumberFiles(const std::vector<int32_t>& nodes, SavePlan& plan,
                   std::vector<WritePiece>& pieces);

}  // namespace belay

#endif  // BELAY_PLAN_POLICY_H_
