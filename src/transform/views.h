// Which elements of which arrays a box of a transform consists of. Pure.
//
// In:  a transform, and a box of its result. Out: views: each says where the
//      elements of a part of the box lie in one leaf, a stored array or the
//      result of a program's function, axis by axis. No I/O.

#ifndef BELAY_TRANSFORM_VIEWS_H_
#define BELAY_TRANSFORM_VIEWS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/status.h"
#include "transform/form.h"

namespace belay {

// Where the elements of a part lie along one axis of an array: at start, start
// + step, ... as the index along axis `along` of the part grows; -1: at start.
struct AxisView {
  int along = -1;
  int64_t start = 0;
  int64_t step = 1;

  friend bool operator==(const AxisView&, const AxisView&) = default;
};

// A part of the box. `part` counts from the box's first element.
struct View {
  Box part;
  std::vector<AxisView> axes;  // of the array

  friend bool operator==(const View&, const View&) = default;
};

// The positions that a view has along an axis of its array.
int64_t CountOf(const View& view, const AxisView& axis);

// The smallest box of the array that has all elements of the view.
Box CoveredBox(const View& view);

// Calls `visit` for each leaf that has elements of `box`, and ends with the
// first error. The box lies in the result, whose form is known.
Status ForEachView(
    const Transform& transform, const Box& box, FindForm find,
    absl::FunctionRef<Status(const Transform& leaf, const View&)> visit);

// Cuts a view of a stored array with elements of so many bytes where that
// spares reading: along axes with a step, into one part for each position, if
// there are few or much lies between them.
std::vector<View> CutForReading(const View& view, const Shape& stored,
                                int64_t element_bytes);

}  // namespace belay

#endif  // BELAY_TRANSFORM_VIEWS_H_
