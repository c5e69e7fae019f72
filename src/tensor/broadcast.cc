#include "tensor/broadcast.h"

#include <algorithm>

#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace {

// The length of an axis, counted from the last one; 1 in front of the first.
int64_t LengthFromEnd(const Shape& shape, size_t i) {
  return i < shape.size() ? shape[shape.size() - 1 - i] : 1;
}

// Axes of the result, the last one first, and how far the operands move along
// each.
struct Axes {
  Shape lengths;
  Shape a;
  Shape b;
};

// Leaves out axes of length 1, and joins neighbours that both operands walk
// through as through one.
Axes JoinAxes(const Shape& a, const Shape& b) {
  Axes axes;
  int64_t a_stride = 1, b_stride = 1;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const int64_t a_length = LengthFromEnd(a, i);
    const int64_t b_length = LengthFromEnd(b, i);
    const int64_t length = a_length == 1 ? b_length : a_length;
    const int64_t a_step = a_length == 1 ? 0 : a_stride;
    const int64_t b_step = b_length == 1 ? 0 : b_stride;
    a_stride *= a_length;
    b_stride *= b_length;
    if (length == 1) continue;
    // The axis that was added last lies inside this one.
    if (!axes.lengths.empty() &&
        a_step == axes.a.back() * axes.lengths.back() &&
        b_step == axes.b.back() * axes.lengths.back()) {
      axes.lengths.back() *= length;
      continue;
    }
    axes.lengths.push_back(length);
    axes.a.push_back(a_step);
    axes.b.push_back(b_step);
  }
  return axes;
}

// Moves to the next line, as an odometer does. Returns whether there is one.
bool NextLine(const Axes& axes, Shape& position, BroadcastLine& line) {
  line.result += line.count;
  for (size_t axis = 1; axis < axes.lengths.size(); ++axis) {
    line.a += axes.a[axis];
    line.b += axes.b[axis];
    if (++position[axis] < axes.lengths[axis]) return true;
    position[axis] = 0;
    line.a -= axes.a[axis] * axes.lengths[axis];
    line.b -= axes.b[axis] * axes.lengths[axis];
  }
  return false;
}

}  // namespace

StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t a_length = LengthFromEnd(a, i);
    const int64_t b_length = LengthFromEnd(b, i);
    const size_t axis = result.size() - 1 - i;
    if (a_length != b_length && a_length != 1 && b_length != 1) {
      return absl::InvalidArgumentError(
          Cat("the shapes do not broadcast on axis ", axis,
              " of the result (need equal lengths or 1, found ", a_length,
              " and ", b_length, ")"));
    }
    result[axis] = a_length == 1 ? b_length : a_length;
  }
  BELAY_RETURN_IF_ERROR(CheckedNumElements(result).status());
  return result;
}

void ForEachLine(const Shape& a, const Shape& b,
                 absl::FunctionRef<void(const BroadcastLine&)> visit) {
  const Axes axes = JoinAxes(a, b);
  BroadcastLine line{.count = 1};
  if (NumElements(axes.lengths) == 0) return;
  if (!axes.lengths.empty()) {
    line.count = axes.lengths[0];
    line.a_repeats = axes.a[0] == 0;
    line.b_repeats = axes.b[0] == 0;
  }
  Shape position(axes.lengths.size(), 0);
  do {
    visit(line);
  } while (NextLine(axes, position, line));
}

}  // namespace belay
