// Coverage: do the shards of one array agree, and do their boxes tile it?
//
// In:  all shards of one key, with their ranks.
// Out: the distinct boxes with their holders, or one Status that names the
//      key, the ranks and the boxes. Never by looking at all pairs.

#ifndef BELAY_PLAN_COVERAGE_H_
#define BELAY_PLAN_COVERAGE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "belay/status.h"
#include "plan/plan.h"

namespace belay {

// One shard of a key: `info` is the `shard`-th that `rank` listed.
struct HeldShard {
  int32_t rank = 0;
  int32_t shard = 0;
  const ShardInfo* info = nullptr;
};

// Most boxes have one holder, and need no memory of their own for it.
using Holders = absl::InlinedVector<HeldShard, 1>;

// A distinct box of an array and everyone who holds it, by rank.
struct HeldBox {
  Box box;  // io box
  Holders holders;
};

// Checks the shards of one key against each other and returns its distinct
// boxes in row-major order of their offsets, empty ones left out.
// Errors: InvalidArgument - dtype, shape or text length differ, two replicas
//   with one number, boxes overlap, or a gap; OutOfRange - a box leaves the
//   array.
StatusOr<std::vector<HeldBox>> CheckCoverage(
    const std::vector<HeldShard>& shards);

// The boxes, which stay where they are.
std::vector<const Box*> BoxesOf(const std::vector<HeldBox>& held);

// Returns the first pair of boxes that overlap, as ascending positions in
// `boxes`, or nothing.
std::optional<std::pair<size_t, size_t>> FindOverlap(
    const std::vector<const Box*>& boxes);

}  // namespace belay

#endif  // BELAY_PLAN_COVERAGE_H_
