// Checks that the shards of an array agree and that their boxes tile it,
// without comparing all pairs.

#ifndef BELAY_PLAN_COVERAGE_H_
#define BELAY_PLAN_COVERAGE_H_

#include <optional>

#include "absl/container/inlined_vector.h"
#include "plan/plan.h"

namespace belay {

// One shard of a key: `info` is shard number `shard` of `rank`.
struct HeldShard {
  int32_t rank = 0;
  int32_t shard = 0;
  const ShardInfo* info = nullptr;
};

// Most boxes have one holder, which needs no allocation.
using Holders = absl::InlinedVector<HeldShard, 1>;

// A distinct box of an array and all shards with that box, by rank.
struct HeldBox {
  Box box;  // io box
  Holders holders;
};

// Errors: InvalidArgument - an impossible shape, a string that is not a scalar,
//   or an array with too many bytes.
Status CheckArrayForm(DType dtype, const Shape& shape);

// Checks the shards of one key against each other. Returns the distinct boxes
// that are not empty, in row-major order of their offsets.
// Errors: InvalidArgument - dtype, shape, fields or text length differ, two
//   replicas have the same number, boxes overlap, or there is a gap;
//   OutOfRange - a box extends past the array.
StatusOr<std::vector<HeldBox>> CheckCoverage(
    const std::vector<HeldShard>& shards);

std::vector<const Box*> GetBoxes(const std::vector<HeldBox>& held);

// Returns the first pair of boxes that overlap, as ascending positions, if any.
std::optional<std::pair<size_t, size_t>> FindOverlap(
    const std::vector<const Box*>& boxes);

}  // namespace belay

#endif  // BELAY_PLAN_COVERAGE_H_
