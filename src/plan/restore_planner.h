// The plan of a restore.

#ifndef BELAY_PLAN_RESTORE_PLANNER_H_
#define BELAY_PLAN_RESTORE_PLANNER_H_

#include "plan/choose_ranks.h"

namespace belay {

// Sorts the orders of a rank by file and place, so that it reads files one
// after the other and forwards.
void SortReads(std::vector<ReadOrder>& orders);

// For each wanted box, the planner finds the extents that hold it, and decides
// who reads bytes that several ranks want: one of them for all, or each for
// itself. Where one reads for all, slivers that lie side by side are read as
// rows. Each byte counts once for the checksums, however many ranks read it.

struct ReadRules {
  ReadSharing sharing = ReadSharing::kEachRank;
  std::optional<int64_t> primary_replica = {};
  int64_t max_bytes_in_flight = int64_t{256} << 20;
};

// kAuto shares reads where that saves so many bytes: per rank, whose shared
// memory must be made, and per round, which ends with an agreement.
inline constexpr int64_t kLeastSavedPerRank = int64_t{1} << 20;
inline constexpr int64_t kLeastSavedPerRound = int64_t{256} << 10;
// A saved request counts as so many bytes.
inline constexpr int64_t kBytesOfRequest = int64_t{4} << 10;

// `wanted` has one element per rank; the lengths of its texts are ignored.
// Errors: NotFound - a key is not in the checkpoint, with the number of absent
//   keys; FailedPrecondition - another dtype or shape; OutOfRange,
//   InvalidArgument - a box outside the array; DataLoss - the index has no data
//   for a wanted box. Of several, the first by rank and position. And those of
//   PartsToRead.
StatusOr<RestorePlan> PlanRestore(const SavedCheckpoint& saved,
                                  const std::vector<RankShards>& wanted,
                                  const ReadRules& rules = {});

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_PLANNER_H_
