// Chooses which rank writes or reads values that several ranks hold or want.

#ifndef BELAY_PLAN_CHOOSE_RANKS_H_
#define BELAY_PLAN_CHOOSE_RANKS_H_

#include "plan/coverage.h"

namespace belay {

// Replica choice: divides the distinct boxes of all arrays into pieces that
// tile them, and assigns each piece to one of its holders. Bytes per rank are
// as equal as the holders allow. Boxes with the same holders are laid end to
// end and cut once per holder, so few boxes are split.

// Boxes are not split into parts much smaller than this, in bytes.
inline constexpr int64_t kMinSplitBytes = int64_t{4} << 10;

// The boxes of one array, as CheckCoverage returned them.
struct ArrayBoxes {
  int32_t array = 0;
  int64_t element_size = 0;
  std::vector<HeldBox> boxes;
  bool can_split = true;  // false for strings, which are one element in a file
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

// Shared reads: the boxes of an array that ranks want may overlap. They are
// divided into parts that tile their union, each with the ranks that want all
// of the part. One of these ranks reads the part, or each reads a slice, so
// that bytes per rank are as equal as the wants allow.

// An io box that a rank wants.
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
  bool can_split = true;  // false for strings
  // True if reading for other ranks may help: boxes overlap or are side by
  // side.
  bool can_share = true;
  std::vector<Want> wants;
};

// Returns the distinct boxes, largest first, with all shards that want them.
std::vector<HeldBox> DistinctBoxes(const std::vector<Want>& wants);

std::vector<Box> Without(const std::vector<Box>& boxes, const Box& hole);

// Returns the parts to read of each array, with the shards that may read them.
// With `primary`, these are only shards with that replica number.
// Errors: InvalidArgument - no shard has that number, or the shards with that
//   number do not hold every wanted box; names key, box and rank of the first.
StatusOr<std::vector<ArrayBoxes>> PartsToRead(
    const std::vector<WantedArray>& arrays, std::optional<int64_t> primary);

}  // namespace belay

#endif  // BELAY_PLAN_CHOOSE_RANKS_H_
