// Box index: which boxes of a set have elements in common with a given one.
//
// In:  boxes of one array, in any arrangement, with any overlaps.
// Out: positions of those that meet a box, in logarithmic time for each that
//      is found: by bisection where the boxes follow each other along one axis,
//      else by a tree of bounding boxes. Planners ask it instead of looking at
//      all pairs.

#ifndef BELAY_CORE_BOX_TILING_H_
#define BELAY_CORE_BOX_TILING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "belay/arrays/box.h"

namespace belay {

class BoxIndex {
 public:
  // Most boxes meet few others.
  using Positions = absl::InlinedVector<size_t, 4>;

  // All boxes have the same number of axes. They are not kept.
  explicit BoxIndex(const std::vector<const Box*>& boxes);

  // Returns the positions of the boxes that meet `box`, ascending. Empty boxes
  // meet nothing.
  Positions Find(const Box& box) const;

  // Whether no two of the boxes overlap, as far as that is seen at once: they
  // follow each other along one axis.
  bool is_stack() const { return nodes_.empty(); }

 private:
  // Where a box, or several together, begins and ends along each axis.
  using Bounds = absl::InlinedVector<int64_t, 8>;

  struct Entry {
    size_t position = 0;
    Bounds bounds;
  };

  // Entries [begin, end). A node without children has right == 0; else its
  // left child follows it.
  struct Node {
    size_t begin = 0;
    size_t end = 0;
    size_t right = 0;
    Bounds bounds;
  };

  static Bounds BoundsOf(const Box& box);
  static bool Meet(const Bounds& a, const Bounds& b);

  // The position in bounds of the begin of the axis along which the entries
  // differ most.
  size_t WidestAxis(size_t begin, size_t end) const;
  // Sorts the entries along one axis. Returns whether none overlaps the next.
  bool Stack();
  // Whether all entries have the same bounds along the axes but that of a
  // stack.
  bool AreAlike() const;
  // Makes the node of these entries and all below it.
  void Build(size_t begin, size_t end);
  // Parts the entries in two along the axis where they differ most.
  void Halve(size_t begin, size_t middle, size_t end);
  void CollectFromStack(const Box& wanted, Positions& found) const;
  void CollectFromTree(const Bounds& wanted, Positions& found) const;

  // Of a stack whose boxes are alike but for one axis, the first one only.
  std::vector<Entry> entries_;
  // Of a stack: the axis, as position in bounds, and where each box begins and
  // ends there. And of one whose boxes are alike their positions.
  size_t axis_ = 0;
  std::vector<int64_t> begins_;
  std::vector<int64_t> ends_;
  std::vector<size_t> positions_;
  std::vector<Node> nodes_;  // none: a stack
};

// Box tiling: what boxes are parts of, where they overlap, what they leave
// open.
//
// For exact error messages about many boxes: near-linear where the boxes tile,
// and bounded by the number of problems asked for where they do not. Whether
// boxes from a file tile is found in linear time.

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

#endif  // BELAY_CORE_BOX_TILING_H_
