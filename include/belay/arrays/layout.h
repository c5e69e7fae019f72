// A layout: how an array is partitioned over a mesh.
//
// Each array axis names the mesh axes that partition it, outermost first; an
// axis that names none is not partitioned. Mesh axes that no array axis names
// hold replicas. (DTensor's Layout, but with uneven sizes and several mesh axes
// per array axis.)

#ifndef BELAY_ARRAYS_LAYOUT_H_
#define BELAY_ARRAYS_LAYOUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/mesh.h"
#include "belay/status.h"

namespace belay {

// For each array axis, the mesh axes that partition it.
using LayoutAxes = std::vector<std::vector<std::string>>;

// Value type, never invalid once created.
class Layout {
 public:
  // Makes a layout for arrays with axes.size() axes. Local.
  // Errors: InvalidArgument - an unknown mesh axis, or one that is used twice.
  static StatusOr<Layout> Create(Mesh mesh, LayoutAxes axes);

  // Returns the layout in which every rank holds the whole array. Local.
  static Layout Replicated(Mesh mesh, int ndim);

  const Mesh& mesh() const { return mesh_; }
  const LayoutAxes& axes() const { return axes_; }
  int ndim() const { return static_cast<int>(axes_.size()); }

  // Returns the number of parts of an array axis. Local.
  int64_t NumParts(int axis) const;

  // Returns the box that a rank holds. If an axis of length d is cut into n
  // parts, the first d % n parts are one longer; if d < n, the last parts are
  // empty. Local.
  // Errors: InvalidArgument - a shape with another number of axes, no such
  //   rank, or a shape that CheckedNumElements refuses.
  StatusOr<Box> LocalBox(const Shape& global_shape, int rank) const;

  // Returns how many ranks hold the same piece. Local.
  int64_t NumReplicas() const;

  // Returns the replica number of this rank, from 0: its row-major position
  // along the mesh axes that partition nothing. Local. Requires a rank of the
  // mesh.
  int64_t Replica(int rank) const;

  // Returns text such as "[x,-] on x=2,y=4"; an axis over several mesh axes
  // prints "x+y". Local.
  std::string ToString() const;

  // Parses the text of ToString. Local.
  // Errors: InvalidArgument - not of that form.
  static StatusOr<Layout> Parse(std::string_view text);

  // Returns the same layout for another number of ranks. The mesh axes keep
  // their names. Going backwards from the last axis, each keeps the largest
  // divisor of its size that also divides the ranks still to be distributed;
  // the first axis takes what is left. So "x=2,y=4" becomes "x=1,y=4" on 4
  // ranks and "x=3,y=2" on 6. A mesh without axes gets one, "replica". Local.
  // Requires num_ranks > 0.
  Layout OnRanks(int num_ranks) const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  Layout(Mesh mesh, LayoutAxes axes)
      : mesh_(std::move(mesh)), axes_(std::move(axes)) {}

  // Position of `rank` along the mesh axes of one array axis, row-major.
  int64_t PartOf(int axis, const std::vector<int64_t>& coordinates) const;

  Mesh mesh_;
  LayoutAxes axes_;
};

}  // namespace belay

#endif  // BELAY_ARRAYS_LAYOUT_H_
