// Which boxes of a set overlap a given one, and whether boxes tile an array.

#ifndef BELAY_CORE_BOX_TILING_H_
#define BELAY_CORE_BOX_TILING_H_

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "belay/arrays/box.h"

namespace belay {

// Finds the boxes that meet a box in logarithmic time: by bisection if the
// boxes follow each other along one axis, else by a tree of bounding boxes.
class BoxIndex {
 public:
  // Most boxes meet few others.
  using Positions = absl::InlinedVector<size_t, 4>;

  // All boxes have the same number of axes. They are not kept.
  explicit BoxIndex(const std::vector<const Box*>& boxes);

  // Returns the positions of the boxes that meet `box`, ascending. Empty boxes
  // meet nothing.
  Positions Find(const Box& box) const;

  // Returns true if the boxes follow each other along one axis, so that none
  // overlap.
  bool is_stack() const { return nodes_.empty(); }

 private:
  // The begin and the end of a box, or of several together, along each axis.
  using Bounds = absl::InlinedVector<int64_t, 8>;

  struct Entry {
    size_t position = 0;
    Bounds bounds;
  };

  // Entries [begin, end). The left child of a node follows it; right == 0: no
  // children.
  struct Node {
    size_t begin = 0;
    size_t end = 0;
    size_t right = 0;
    Bounds bounds;
  };

  static Bounds GetBounds(const Box& box);
  static bool Meet(const Bounds& a, const Bounds& b);

  // The axis along which the entries differ most, as position in bounds.
  size_t WidestAxis(size_t begin, size_t end) const;
  // Sorts the entries along one axis. Returns true if none overlaps the next.
  bool Stack();
  // Returns true if the entries differ along the axis of the stack only.
  bool AreAlike() const;
  void Build(size_t begin, size_t end);
  void CollectFromStack(const Box& wanted, Positions& found) const;
  void CollectFromTree(const Bounds& wanted, Positions& found) const;

  // Only the first one of a stack whose boxes are alike along the other axes.
  std::vector<Entry> entries_;
  // In a stack: the axis, as position in bounds, and the begin and end of each
  // box along it; the positions if the boxes are alike along the other axes.
  size_t axis_ = 0;
  std::vector<int64_t> begins_;
  std::vector<int64_t> ends_;
  std::vector<size_t> positions_;
  std::vector<Node> nodes_;  // none: a stack
};

// Returns pairs of positions of boxes that overlap. Each box that overlaps
// another is in a pair, unless `most` pairs were found before.
std::vector<std::pair<size_t, size_t>> FindOverlaps(
    const std::vector<const Box*>& boxes, size_t most);

// Returns a part of `whole` that no box meets, or nothing if there is none.
// Boxes lie in `whole`. Fast if they are `disjoint`; where very many boxes
// overlap, it gives up after a while. An empty `whole` has no gap.
std::optional<Box> FindGap(const Box& whole,
                           const std::vector<const Box*>& boxes, bool disjoint);

// Returns true if boxes, each of which lies in the shape, hold each of its
// elements exactly once. Takes time in proportion to their number. Is wrong
// with a chance below 2^-50, which the maker of the boxes cannot change.
bool IsTiling(const Shape& shape, const std::vector<const Box*>& boxes);

// Finds the one of some disjoint boxes that contains a box.
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
