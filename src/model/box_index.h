// Box index: which boxes of a set have elements in common with a given one.
//
// In:  boxes of one array, in any arrangement, with any overlaps.
// Out: positions of those that meet a box, in logarithmic time for each that
//      is found, by a tree of bounding boxes. Planners ask it instead of
//      looking at all pairs.

#ifndef BELAY_MODEL_BOX_INDEX_H_
#define BELAY_MODEL_BOX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "belay/box.h"

namespace belay {

class BoxIndex {
 public:
  // All boxes have the same number of axes. They are not kept.
  explicit BoxIndex(const std::vector<const Box*>& boxes);

  // Returns the positions of the boxes that meet `box`, ascending. Empty boxes
  // meet nothing.
  std::vector<size_t> Find(const Box& box) const;

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

  // Makes the node of these entries and all below it.
  void Build(size_t begin, size_t end);
  // Parts the entries in two along the axis where they differ most.
  void Halve(size_t begin, size_t middle, size_t end);
  void Collect(const Bounds& wanted, std::vector<size_t>& found) const;

  std::vector<Entry> entries_;
  std::vector<Node> nodes_;
};

}  // namespace belay

#endif  // BELAY_MODEL_BOX_INDEX_H_
