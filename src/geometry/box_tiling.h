// Box tiling: what boxes are parts of, where they overlap, what they leave
// open.
//
// For exact error messages about many boxes: near-linear where the boxes tile,
// and bounded by the number of problems asked for where they do not. Whether
// boxes from a file tile is found in linear time.

#ifndef BELAY_GEOMETRY_BOX_TILING_H_
#define BELAY_GEOMETRY_BOX_TILING_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "belay/arrays/box.h"
#include "geometry/box_index.h"

namespace belay {

// Returns pairs of positions of boxes that overlap. Each box that overlaps
// another is in a pair, unless `most` pairs were found before.
std::vector<std::pair<size_t, size_t>> FindOverlaps(
    const std::vector<const Box*>& boxes, size_t most);

// Returns a part of `whole` that no box meets, or nothing if there is none.
// Boxes lie in `whole`. `disjoint` says that they do not overlap, which makes
// this fast. An empty `whole` has no gap. Where very many boxes overlap, it
// gives up after a while.
std::optional<Box> FindGap(const Box& whole,
                           const std::vector<const Box*>& boxes, bool disjoint);

// Returns whether boxes, each of which lies in the shape, hold each of its
// elements exactly once. Takes time in proportion to their number, however they
// lie. That it takes other boxes for a tiling has a chance below 2^-50, which
// who made the boxes cannot change.
bool IsTiling(const Shape& shape, const std::vector<const Box*>& boxes);

// Tells which of some disjoint boxes contains another one.
class BoxOwners {
 public:
  // All boxes have the same number of axes, are borrowed and not empty.
  explicit BoxOwners(std::vector<const Box*> boxes);

  // Returns the position of the box that contains `box`, or nothing.
  std::optional<size_t> Find(const Box& box);

 private:
  std::vector<const Box*> boxes_;
  absl::flat_hash_map<Box, size_t> same_;
  std::optional<BoxIndex> index_;  // made when it is needed first
};

}  // namespace belay

#endif  // BELAY_GEOMETRY_BOX_TILING_H_
