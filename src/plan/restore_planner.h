// The plan of a restore.

#ifndef BELAY_PLAN_RESTORE_PLANNER_H_
#define BELAY_PLAN_RESTORE_PLANNER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "belay/options.h"
#include "belay/status.h"
#include "plan/choose_ranks.h"
#include "plan/plan.h"

namespace belay {

// Read places: the order in which a rank reads.

// Sorts the orders of one rank by file and place in it, so that files are read
// one after the other and forwards. Arrays mostly lie in a file as they come.
void SortReads(std::vector<ReadOrder>& orders);

// The restore planner: an index and the wanted boxes -> RestorePlan.
//
// For every wanted box it finds the extents that hold it, and it decides
// who reads what several ranks want: one of them for all, or each for itself.
// Where one reads for all, slivers that lie side by side are read as rows.
// Then it decides which reads count for the checksums, so that each byte counts
// once however many ranks read it.

// Who may read.
struct ReadRules {
  ReadSharing sharing = ReadSharing::kEachRank;
  std::optional<int64_t> primary_replica = {};
  int64_t max_bytes_in_flight = int64_t{256} << 20;
};

// kAuto shares reads where that saves so many bytes: for each rank, whose
// shared memory has to be made, and for each round, which ends at an agreement.
inline constexpr int64_t kLeastSavedPerRank = int64_t{1} << 20;
inline constexpr int64_t kLeastSavedPerRound = int64_t{256} << 10;
// A request that is saved counts as so many bytes.
inline constexpr int64_t kBytesOfRequest = int64_t{4} << 10;

// Makes the plan. `wanted` has one entry per rank; a text's length is not
// known to the caller and not looked at.
// Errors: NotFound - a key is not in the checkpoint; FailedPrecondition -
//   another dtype or shape; OutOfRange, InvalidArgument - a box outside the
//   array; DataLoss - the index has no data for a wanted box. Of several, the
//   first by rank and position; a NotFound counts all absent keys. And those of
//   PartsToRead.
StatusOr<RestorePlan> PlanRestore(const SavedCheckpoint& saved,
                                  const std::vector<RankShards>& wanted,
                                  const ReadRules& rules = {});

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_PLANNER_H_
