// Boxes: axis-aligned pieces of an array, and their text form.
//
// All numbers count elements. Arrays are row-major: the last axis is
// contiguous. A scalar has no axes; its only box is the empty Box{}.

#ifndef BELAY_ARRAYS_BOX_H_
#define BELAY_ARRAYS_BOX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "belay/status.h"

namespace belay {

// Lengths per axis, outermost first. Every length is >= 0.
using Shape = absl::InlinedVector<int64_t, 4>;

// The piece [offset, offset + shape) of an array. Both have one entry per
// axis. A box with any length 0 is empty and holds nothing.
struct Box {
  Shape offset;
  Shape shape;

  friend bool operator==(const Box& a, const Box& b) {
    return a.offset == b.offset && a.shape == b.shape;
  }
  template <typename H>
  friend H AbslHashValue(H h, const Box& b) {
    return H::combine(std::move(h), b.offset, b.shape);
  }
};

// A box and the shape of the array that contains it.
struct SliceSpec {
  Shape full_shape;
  Box box;
};

// Returns the number of elements; 1 for a scalar. Local.
// Errors: InvalidArgument - a negative length, or more than 2^63 - 1 elements.
StatusOr<int64_t> CheckedNumElements(const Shape& shape);

// The same for a shape that is already checked. Local.
int64_t NumElements(const Shape& shape);

// Returns the box that covers the whole array. Local.
Box WholeBox(const Shape& shape);

// Returns whether the box holds no element. Local.
bool IsEmpty(const Box& box);

// Checks that `box` is inside an array of that shape. Local.
// Errors: InvalidArgument - a different number of axes, or a negative number;
//   OutOfRange - the box reaches past an axis; names axis, needed and found.
Status CheckBox(const Box& box, const Shape& shape);

// Returns the intersection of two boxes, or nothing if it is empty. Two scalar
// boxes intersect in the scalar box. Both boxes must have the same number of
// axes. Local.
std::optional<Box> Intersect(const Box& a, const Box& b);

// Returns whether `outer` contains every element of `inner`. Local.
bool Contains(const Box& outer, const Box& inner);

// Returns `a` without `b` as at most 2 * ndim disjoint, non-empty boxes. Local.
std::vector<Box> Subtract(const Box& a, const Box& b);

// Returns the shape as text: "[4, 3]", "[]" for a scalar. Local.
std::string ShapeText(const Shape& shape);

// Returns "offset,length:offset,length", one pair per axis; "" for a scalar.
// Local.
std::string BoxText(const Box& box);

// Returns the slice-spec string: the full dims, a blank, then BoxText, such as
// "4 3 5 0,4:1,1:3,2"; "" for a scalar. Local. (TensorFlow's SaveSliceInfo.)
std::string FormatSliceSpec(const Shape& full_shape, const Box& box);

// Parses a slice-spec string. An axis may also be "-", the whole axis. A length
// of 0 is allowed. Outer blanks are ignored. Local.
// Errors: InvalidArgument - not of that form, a number that is negative or too
//   large, or different numbers of axes; OutOfRange - the box exceeds its
//   shape.
StatusOr<SliceSpec> ParseSliceSpec(std::string_view text);

}  // namespace belay

#endif  // BELAY_ARRAYS_BOX_H_
