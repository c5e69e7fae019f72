// Plans a restore.

#ifndef BELAY_PLAN_RESTORE_PLANNER_H_
#define BELAY_PLAN_RESTORE_PLANNER_H_

#include "plan/choose_ranks.h"
#include "plan/stored_arrays.h"

namespace belay {

// For each wanted box, the planner finds the extents that hold it, and decides
// who reads bytes that several ranks want: one rank for all of them, or each
// rank for itself. If one rank reads for all, adjacent slivers are read as
// whole rows. Each byte is added to the checksums once, regardless of how many
// ranks read it.

struct ReadRules {
  ReadSharing sharing = ReadSharing::kEachRank;
  std::optional<int64_t> primary_replica = {};
  int64_t max_bytes_in_flight = int64_t{256} << 20;
};

// kAuto shares reads if this saves at least this many bytes per rank, to pay
// for its shared memory, and per round, to pay for the agreement at its end.
inline constexpr int64_t kLeastSavedPerRank = int64_t{1} << 20;
inline constexpr int64_t kLeastSavedPerRound = int64_t{256} << 10;
// The number of saved bytes that a saved request is worth.
inline constexpr int64_t kBytesOfRequest = int64_t{4} << 10;

// A rank reads a part of an array, for one of its shards or for all ranks.
struct Reading {
  int32_t rank = 0;
  int32_t shard = 0;
  Box box;
  bool counts = true;  // added to the checksums
};

// Cuts the wanted boxes of an array into parts, disjoint within each box. The
// parts with `counts` set are disjoint across all wants and have the same union
// as all parts.
std::vector<Reading> ReadByEachRank(const std::vector<Want>& wants);

// `wanted` has one element per rank; its string lengths are ignored.
// Errors: NotFound - a key is not in the checkpoint, with the number of absent
//   keys; FailedPrecondition - another dtype or shape; OutOfRange,
//   InvalidArgument - a box outside the array; DataLoss - the index has no data
//   for a wanted box. Of several, the first by rank and position. And those of
//   PartsToRead.
StatusOr<RestorePlan> PlanRestore(const SavedCheckpoint& saved,
                                  const std::vector<RankShards>& wanted,
                                  const ReadRules& rules = {});

// Whole rows: boxes that are cut along an inner axis have short runs in a
// row-major array, and each run needs a request. If ranks want such boxes side
// by side, one rank reads the boxes together, and the ranks copy their parts in
// memory.

// Joining costs a copy of the array, which pays off if it saves at least one
// request per this many bytes.
inline constexpr int64_t kBytesPerRequest = int64_t{64} << 10;

// Joins boxes that follow each other along an axis other than the first, and
// are equal along all other axes. A joined box has the holders of all its
// parts. The boxes must be disjoint, and so are the joined boxes.
std::vector<HeldBox> JoinSideBySide(std::vector<HeldBox> boxes);

// Joins the boxes of one array if that pays off. Returns the number of requests
// saved; 0: nothing was joined.
int64_t JoinIntoRows(const ArrayDatasets& stored, int64_t element_size,
                     std::vector<HeldBox>& boxes);

// Own arrays: every rank can plan its reads of such an array alone, because no
// two ranks want the same bytes and the datasets form a stack. Rank 0 plans the
// reads of all other arrays. If these are a large part, rank 0 plans all reads
// instead, to balance them over the ranks. Rank 0 visits each dataset and each
// distinct list once: for own arrays, its work and memory do not grow with
// ranks times arrays.

struct DividedWants {
  std::vector<int32_t> own;           // arrays, as numbered in the index
  std::vector<StackedArray> stacked;  // the datasets of each own array
  std::vector<RankShards> central;    // the other wants, per rank
  // For each rank, the positions of its central shards in its full list.
  std::vector<std::vector<int32_t>> numbers;
};

enum class Dividing : uint8_t {
  kNothing,   // rank 0 plans all reads
  kWhatPays,  // arrays with short descriptions, if the rest is small
  kAllThatCanBe,
};

// Divides the wants. Own wants are valid; rank 0 finds the errors in the rest.
DividedWants DivideWants(const SavedCheckpoint& saved,
                         const ListedRanks& listed, Dividing dividing);

// Adds the own arrays to the plan for the central wants, and renumbers the
// plan's shards by their positions on the ranks. AddLocalReads adds the orders.
void AddLocalArrays(const SavedCheckpoint& saved, DividedWants& wants,
                    RestorePlan& plan);

struct WantedBox {
  std::string_view key;
  const Box* box = nullptr;
};

// Adds the reads of own arrays to those that rank 0 has planned for this rank.
// `wanted` has all shards of the rank.
void AddLocalReads(const std::vector<StackedArray>& stacked,
                   const std::vector<WantedBox>& wanted, RankReads& reads);

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_PLANNER_H_
