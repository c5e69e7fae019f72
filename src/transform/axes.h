// The axes that the functions of a transform are about. Pure.

#ifndef BELAY_TRANSFORM_AXES_H_
#define BELAY_TRANSFORM_AXES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "tensor/selection.h"

namespace belay {

// Which axis is meant, counted from the first.
// Errors: InvalidArgument - none of so many.
StatusOr<size_t> AxisOf(int axis, size_t num_axes);

// For each axis of the result, the axis of the input.
// Errors: InvalidArgument - not each axis once.
StatusOr<std::vector<size_t>> AxesOf(const TransformNode& transpose,
                                     size_t num_axes);

// What a slice takes, without masks.
StatusOr<Selection> SelectionOf(const TransformNode& slice, const Shape& shape);

// The first element of a split or a narrow along its axis, and how many it has.
struct AxisPart {
  size_t axis = 0;
  int64_t offset = 0;
  int64_t length = 0;
};
StatusOr<AxisPart> PartOf(const TransformNode& node, const Shape& shape);

}  // namespace belay

#endif  // BELAY_TRANSFORM_AXES_H_
