// Which of the ranks that hold the same box writes or reads it.

#ifndef BELAY_PLAN_CHOOSE_RANKS_H_
#define BELAY_PLAN_CHOOSE_RANKS_H_

#include <cstdint>
#include <vector>

#include "plan/coverage.h"

namespace belay {

// Replica choice: which of the ranks that hold the same box writes it, and
// which of those that want it reads it.
//
// In:  the distinct boxes of all arrays with their holders.
// Out: pieces, each written by one rank; together they tile the boxes. Bytes
//      per rank are as equal as the holders allow. Boxes with the same holders
//      lie end to end on one tape, which is cut once per holder: so a box is
//      split only where a cut meets it, and there are few pieces.

// A box is not split into much smaller parts than this.
inline constexpr int64_t kMinSplitBytes = int64_t{4} << 10;

// One array's boxes, as CheckCoverage returned them.
struct ArrayBoxes {
  int32_t array = 0;
  int64_t element_size = 0;
  std::vector<HeldBox> boxes;
  bool can_split = true;  // not for texts, which are one element in a file
};

// The part `box` of an array, written by `rank` from its shard `shard`.
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

}  // namespace belay

#endif  // BELAY_PLAN_CHOOSE_RANKS_H_
