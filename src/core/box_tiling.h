// Finds which boxes of a set overlap a given one, and whether boxes tile an
// array.

#ifndef BELAY_CORE_BOX_TILING_H_
#define BELAY_CORE_BOX_TILING_H_

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "belay/arrays/box.h"

namespace belay {

// Finds the boxes that overlap a given box in logarithmic time: by bisection if
// the boxes follow each other along one axis, else with a tree of bounding
// boxes.
class BoxIndex {
 public:
  // Most boxes overlap few others.
  using Positions = absl::InlinedVector<size_t, 4>;

  // All boxes must have the same number of axes. The boxes are not retained.
  explicit BoxIndex(const std::vector<const Box*>& boxes);

  // Returns the positions of the boxes that overlap `box`, ascending. Empty
  // boxes overlap nothing.
  Positions Find(const Box& box) const;

  // Returns true if the boxes follow each other along one axis, so none
  // overlap.
  bool is_stack() const { return nodes_.empty(); }

 private:
  // Begin and end along each axis, of one box or the union of several.
  using Bounds = absl::InlinedVector<int64_t, 8>;

  struct Entry {
    size_t position = 0;
    Bounds bounds;
  };

  // Covers entries [begin, end). A node's left child follows it directly. If
  // right is 0, the node has no children.
  struct Node {
    size_t begin = 0;
    size_t end = 0;
    size_t right = 0;
    Bounds bounds;
  };

  static Bounds GetBounds(const Box& box);
  static bool Meet(const Bounds& a, const Bounds& b);

  // Returns the axis along which the entries differ most, as a position in
  // bounds.
  size_t WidestAxis(size_t begin, size_t end) const;
  // Sorts the entries along one axis. Returns true if none overlaps the next
  // one.
  bool Stack();
  // Returns true if the entries differ only along the axis of the stack.
  bool AreAlike() const;
  void Build(size_t begin, size_t end);
  void CollectFromStack(const Box& wanted, Positions& found) const;
  void CollectFromTree(const Bounds& wanted, Positions& found) const;

  // Only the first entry, if a stack's boxes are alike along the other axes.
  std::vector<Entry> entries_;
  // For a stack: the axis, as a position in bounds, and the begin and end of
  // each box along it. positions_ is set if the boxes are alike along the other
  // axes.
  size_t axis_ = 0;
  std::vector<int64_t> begins_;
  std::vector<int64_t> ends_;
  std::vector<size_t> positions_;
  std::vector<Node> nodes_;  // empty for a stack
};

// Returns pairs of positions of overlapping boxes. Each box that overlaps
// another is in a pair, unless `most` pairs were found first.
std::vector<std::pair<size_t, size_t>> FindOverlaps(
    const std::vector<const Box*>& boxes, size_t most);

// Returns a part of `whole` that no box overlaps, or nothing if there is none.
// All boxes must be inside `whole`. Fast if they are `disjoint`; otherwise the
// search stops after a fixed number of steps. An empty `whole` has no gap.
std::optional<Box> FindGap(const Box& whole,
                           const std::vector<const Box*>& boxes, bool disjoint);

// Returns true if boxes, each of which is inside the shape, hold each of its
// elements exactly once. Takes time proportional to their number. The result is
// wrong with a probability below 2^-50, which crafted boxes cannot raise.
bool IsTiling(const Shape& shape, const std::vector<const Box*>& boxes);

// Finds which one of a set of disjoint boxes contains a given box.
class BoxOwners {
 public:
  // Borrows the boxes, which are not empty and have the same number of axes.
  explicit BoxOwners(std::vector<const Box*> boxes);

  // Returns the position of the box that contains `box`, or nothing if none
  // does.
  std::optional<size_t> Find(const Box& box);

 private:
  std::vector<const Box*> boxes_;
  absl::flat_hash_map<Box, size_t> same_;
  std::optional<BoxIndex> index_;  // made when first needed
};

}  // namespace belay

#endif  // BELAY_CORE_BOX_TILING_H_
