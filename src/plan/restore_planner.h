// The plan of a restore.

#ifndef BELAY_PLAN_RESTORE_PLANNER_H_
#define BELAY_PLAN_RESTORE_PLANNER_H_

#include "plan/choose_ranks.h"
#include "plan/stored_arrays.h"

namespace belay {

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

// A rank reads a part of an array, for one of its shards or for all.
struct Reading {
  int32_t rank = 0;
  int32_t shard = 0;
  Box box;
  bool counts = true;  // for the checksums
};

// Cuts the wanted boxes of an array into disjoint parts. Those that count are
// disjoint over all wants and have the same union as all.
std::vector<Reading> ReadByEachRank(const std::vector<Want>& wants);

// `wanted` has one element per rank; the lengths of its texts are ignored.
// Errors: NotFound - a key is not in the checkpoint, with the number of absent
//   keys; FailedPrecondition - another dtype or shape; OutOfRange,
//   InvalidArgument - a box outside the array; DataLoss - the index has no data
//   for a wanted box. Of several, the first by rank and position. And those of
//   PartsToRead.
StatusOr<RestorePlan> PlanRestore(const SavedCheckpoint& saved,
                                  const std::vector<RankShards>& wanted,
                                  const ReadRules& rules = {});

// Whole rows: boxes that are cut along an inner axis have short runs in an
// array that is stored by rows, and need a request for each. Where ranks want
// such boxes side by side, one rank reads them together, and the ranks copy
// their parts in memory.

// Joining costs a copy of the array, which pays off if it saves a request for
// so many bytes.
inline constexpr int64_t kBytesPerRequest = int64_t{64} << 10;

// Joins boxes that follow each other along one axis, other than the first, and
// are equal along the others. Whoever wants one of them wants the joined one.
// The boxes are disjoint; so is the result.
std::vector<HeldBox> JoinSideBySide(std::vector<HeldBox> boxes);

// Joins the boxes of one array if that pays off. Returns the requests that it
// saves; 0: nothing was joined.
int64_t JoinIntoRows(const ArrayDatasets& stored, int64_t element_size,
                     std::vector<HeldBox>& boxes);

// Own reads: arrays of which every rank can plan its reads alone, because no
// two ranks want the same bytes and the datasets are a stack. Rank 0 plans the
// rest; if that is more than a little, it plans all, to level the reads of
// ranks. It looks once at each dataset and at each distinct list: for own
// arrays its work and memory do not grow with ranks times arrays.

struct DividedWants {
  std::vector<int32_t> own;           // arrays, as numbered in the index
  std::vector<StackedArray> stacked;  // of each of them, where it lies
  std::vector<RankShards> central;    // the rest, of each rank
  // By rank, the number of each central shard at its rank.
  std::vector<std::vector<int32_t>> numbers;
};

enum class Dividing : uint8_t {
  kNothing,   // rank 0 plans all
  kWhatPays,  // own arrays take few words, and the rest is little
  kAllThatCanBe,
};

// Divides the wants. Rank 0 finds the errors in wants: own ones have none.
DividedWants DivideWants(const SavedCheckpoint& saved,
                         const ListedRanks& listed, Dividing dividing);

// Adds the own arrays to the plan of the central ones, whose shards get their
// numbers at the ranks. AddLocalReads adds the orders.
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
