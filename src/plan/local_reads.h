// What a rank reads: boxes, whole rows where they lie side by side.

#ifndef BELAY_PLAN_LOCAL_READS_H_
#define BELAY_PLAN_LOCAL_READS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "plan/coverage.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"
#include "plan/stored_arrays.h"

namespace belay {

// Whole rows: what lies side by side in a file is read in one go.
//
// Boxes that are cut along an inner axis have short runs in an array that is
// stored by rows: a request for each. Where ranks want such boxes side by side,
// they are joined, one rank reads them together, and the ranks take what they
// want out of it in memory.

// Joining an array costs a copy of it, which is worth it where it saves a
// request for so many bytes.
inline constexpr int64_t kBytesPerRequest = int64_t{64} << 10;

// Joins boxes that differ in their place along one axis only, and follow each
// other there, along any axis but the first. Whoever wants one of them wants
// the joined one. The boxes are disjoint; so is what is returned.
std::vector<HeldBox> JoinSideBySide(std::vector<HeldBox> boxes);

// Joins the boxes of one array if that is worth it. Returns the requests that
// are saved; 0: nothing was joined.
int64_t JoinIntoRows(const ArrayDatasets& stored, int64_t element_size,
                     std::vector<HeldBox>& boxes);

// Own reads: what each rank plans by itself of a restore.
//
// In:  the index, and what all ranks want, told once where it is alike.
// Out: the arrays of which every rank can find out alone what it reads, because
//      no two want the same bytes and the datasets are a stack; and the rest,
//      which rank 0 plans. If the rest is more than a little, that is all: rank
//      0 then levels what ranks read. It looks once at each dataset, and once
//      at what is wanted alike: for own arrays its work and memory do not grow
//      with ranks times arrays.

// What all ranks want.
struct DividedWants {
  std::vector<int32_t> own;           // arrays, as numbered in the index
  std::vector<StackedArray> stacked;  // of each of them, where it lies
  std::vector<RankShards> central;    // the rest, of each rank
  // Of each of those shards its number at its rank.
  std::vector<std::vector<int32_t>> numbers;
};

enum class Dividing : uint8_t {
  kNothing,   // rank 0 plans all
  kWhatPays,  // own arrays take few words, and the rest is little
  kAllThatCanBe,
};

// Divides what is wanted. What is wrong with a want, rank 0 finds: own ones are
// sound.
DividedWants DivideWants(const SavedCheckpoint& saved,
                         const ListedRanks& listed, Dividing dividing);

// Adds the own arrays to the plan of the rest, whose shards get their numbers.
// Their orders are not in it: see AddLocalReads.
void AddLocalArrays(const SavedCheckpoint& saved, DividedWants& wants,
                    RestorePlan& plan);

// A shard that a rank wants.
struct WantedBox {
  std::string_view key;
  const Box* box = nullptr;
};

// Adds to what rank 0 has planned for this rank what it reads of own arrays.
// `wanted` are all shards of the rank.
void AddLocalReads(const std::vector<StackedArray>& stacked,
                   const std::vector<WantedBox>& wanted, RankReads& reads);

}  // namespace belay

#endif  // BELAY_PLAN_LOCAL_READS_H_
