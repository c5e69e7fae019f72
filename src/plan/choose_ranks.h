// Which of the ranks that hold or want the same values writes or reads them.

#ifndef BELAY_PLAN_CHOOSE_RANKS_H_
#define BELAY_PLAN_CHOOSE_RANKS_H_

#include "plan/coverage.h"

namespace belay {

// Replica choice: the distinct boxes of all arrays with their holders, dealt
// out as pieces that tile the boxes, each for one rank. Bytes per rank are as
// equal as the holders allow. Boxes with the same holders lie end to end on one
// tape, which is cut once per holder: so few boxes are split.

// A box is not split into much smaller parts than this.
inline constexpr int64_t kMinSplitBytes = int64_t{4} << 10;

// The boxes of one array, as CheckCoverage returned them.
struct ArrayBoxes {
  int32_t array = 0;
  int64_t element_size = 0;
  std::vector<HeldBox> boxes;
  bool can_split = true;  // not for texts, which are one element in a file
};

// The part `box` of an array that `rank` writes from its shard `shard`.
struct WritePiece {
  int32_t array = 0;
  int32_t rank = 0;
  int32_t shard = 0;
  Box box;
  int32_t group = 0;  // of the sharding policy
  int32_t file = 0;
};

std::vector<WritePiece> ChooseWriters(const std::vector<ArrayBoxes>& arrays,
                                      int num_ranks);

// Shared reads: the boxes that ranks want of each array, with any overlaps,
// divided into parts that tile their union, each with the ranks that want all
// of it. One of them reads it, or each a slice of it, so that bytes per rank
// are as equal as the wants allow.

// A box that a rank wants, as io box.
struct Want {
  int32_t rank = 0;
  int32_t shard = 0;
  int64_t replica = 0;
  Box box;
};

// The wants for one array, by rank; no box is empty.
struct WantedArray {
  int32_t array = 0;
  std::string_view key;
  int64_t element_size = 0;
  bool can_split = true;  // not for texts
  // Set if reading for others may help: boxes overlap, or lie side by side.
  bool can_share = true;
  std::vector<Want> wants;
};

// Returns the distinct boxes, the largest first, with all who want them.
std::vector<HeldBox> DistinctBoxes(const std::vector<Want>& wants);

std::vector<Box> Without(const std::vector<Box>& boxes, const Box& hole);

// Returns the parts to read of each array, with those who may read them: with
// `primary`, only shards with that replica number.
// Errors: InvalidArgument - no shard has that number, or those that have it do
//   not hold all that is wanted; names key, box and rank of the first one.
StatusOr<std::vector<ArrayBoxes>> PartsToRead(
    const std::vector<WantedArray>& arrays, std::optional<int64_t> primary);

}  // namespace belay

#endif  // BELAY_PLAN_CHOOSE_RANKS_H_
