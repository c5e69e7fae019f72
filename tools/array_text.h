// Arrays as text, in rows and brackets, as NumPy prints them.

#ifndef BELAY_TOOLS_ARRAY_TEXT_H_
#define BELAY_TOOLS_ARRAY_TEXT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"
#include "belay/status.h"

namespace belay::tools {

// The printed part of an array: all of it, or only the first and the last items
// of each axis.
struct Excerpt {
  Tensor values;
  int64_t edge = 0;  // items at each end of an abbreviated axis
  Shape shape;       // of the whole box
};

// Reads the printed part of a box: all of it if it has at most `max_elements`
// elements, else 3 items at each end of every axis, or fewer if there are many
// axes. `read` returns the values of a part of the box.
// Errors: those of `read`; FailedPrecondition - too many axes for that.
StatusOr<Excerpt> ReadExcerpt(
    DType dtype, const Box& box, int64_t max_elements,
    const std::function<StatusOr<Tensor>(const Box&)>& read);

// Returns the lines of an array, with "..." for omitted items; at most 75
// columns wide unless a single item is wider.
std::string ArrayText(const Excerpt& excerpt);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_ARRAY_TEXT_H_
