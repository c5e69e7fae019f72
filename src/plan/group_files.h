// Groups and files: which pieces a rank stores together, and in which file.
//
// In:  the pieces of all ranks, as ChooseWriters dealt them out.
// Out: the same pieces, cut where the policy wanted it, each with the number of
//      its group and of its file.

#ifndef BELAY_PLAN_GROUP_FILES_H_
#define BELAY_PLAN_GROUP_FILES_H_

#include <cstdint>
#include <vector>

#include "belay/status.h"
#include "belay/values/sharding_policy.h"
#include "plan/choose_ranks.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"

namespace belay {

// More than any directory should hold.
inline constexpr int64_t kMaxFiles = int64_t{1} << 20;

// Whether it is the default policy, which needs no list of what there is.
bool MakesOneGroup(const ShardingPolicy& policy);

// Asks the policy for the groups of each rank. It sees the pieces in the order
// in which the rank listed its shards, with the devices of these. Adds its
// warnings to the plan. Errors: those of ApplyPolicy.
Status GroupPieces(const ShardingPolicy& policy, const ListedRanks& ranks,
                   SavePlan& plan, std::vector<WritePiece>& pieces);

// Makes the files for the groups of `pieces`, and the teams that write them;
// `nodes` are those of the ranks:
//   kShared   one team; file i holds group i of all ranks
//   kPerNode  a team per node; its file i holds group i of its ranks
//   kPerTask  a team per rank; its file i holds its group i
// Files are numbered by team, then by group; teams in order of the lowest rank
// that writes. Its files are created by the ranks of a team in turn, shared
// ones by rank 1 first and by rank 0 last, which makes the index at that time.
// Errors: InvalidArgument - more than kMaxFiles files.
Status NumberFiles(const std::vector<int32_t>& nodes, SavePlan& plan,
                   std::vector<WritePiece>& pieces);

}  // namespace belay

#endif  // BELAY_PLAN_GROUP_FILES_H_
