// Checks that the shards of an array agree and that their boxes tile it,
// without looking at all pairs.

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

// Most boxes have one holder, and need no memory of their own for it.
using Holders = absl::InlinedVector<HeldShard, 1>;

// A distinct box of an array and all who hold it, by rank.
struct HeldBox {
  Box box;  // io box
  Holders holders;
};

// Errors: InvalidArgument - an impossible shape, a string that is no scalar, or
//   an array with too many bytes.
Status CheckArrayForm(DType dtype, const Shape& shape);

// Checks the shards of one key against each other. Returns its distinct boxes
// that are not empty, in row-major order of their offsets.
// Errors: InvalidArgument - dtype, shape or text length differ, two replicas
//   with one number, boxes overlap, or a gap; OutOfRange - a box leaves the
//   array.
StatusOr<std::vector<HeldBox>> CheckCoverage(
    const std::vector<HeldShard>& shards);

std::vector<const Box*> GetBoxes(const std::vector<HeldBox>& held);

// Returns the first pair of boxes that overlap, as ascending positions, if any.
std::optional<std::pair<size_t, size_t>> FindOverlap(
    const std::vector<const Box*>& boxes);

}  // namespace belay

#endif  // BELAY_PLAN_COVERAGE_H_
