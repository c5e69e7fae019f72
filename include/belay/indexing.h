// Indexing an array: what stands between the brackets of `x[...]` in Python.
//
//   Index{Slice{2, 8, 3}}            x[2:8:3]
//   Index{-1, Ellipsis{}, NewAxis{}} x[-1, ..., newaxis]
//   Index{&mask}                     x[mask]
//
// ParseIndex reads the Python form.

#ifndef BELAY_INDEXING_H_
#define BELAY_INDEXING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "belay/status.h"
#include "belay/tensor.h"

namespace belay {

// start:stop:step with every rule of Python: negative numbers count from the
// end, ranges are clipped, a missing part has its default. A step of 0 is an
// error.
struct Slice {
  std::optional<int64_t> start = {};
  std::optional<int64_t> stop = {};
  std::optional<int64_t> step = {};
};

// All axes that the other items leave over; at most once.
struct Ellipsis {};

// An axis of length 1 in the result.
struct NewAxis {};

// A mask is a bool tensor whose shape is that of the first axes, at least one;
// it is borrowed and stands alone. The selected elements become one axis.
using IndexItem =
    std::variant<int64_t, Slice, Ellipsis, NewAxis, const Tensor*>;
using Index = std::vector<IndexItem>;

// Returns the Python form, such as "2:8:3, ..., newaxis"; "" for an empty
// index, which takes everything. A mask is "mask[4, 3]", with its shape. Local.
std::string IndexText(const Index& index);

// Reads the Python form, without masks. "None" is newaxis too, and one comma
// may stand at the end. Local.
// Errors: InvalidArgument - not of that form, or a number beyond 64 bits.
StatusOr<Index> ParseIndex(std::string_view text);

// Returns x[index] of a dense tensor. Local.
// Errors: OutOfRange - an integer outside its axis, more items than axes;
//   InvalidArgument - a step of 0, two ellipses, a mask that is not bool, that
//   does not stand alone or has another shape.
StatusOr<Tensor> GetItem(const Tensor& x, const Index& index);

// x[index] = value: the value is broadcast to the shape of x[index] as NumPy
// does, and axes of length 1 in front of it are ignored. Local.
// Errors: those of GetItem; InvalidArgument - another dtype, or a shape that
//   does not broadcast. Then `x` is unchanged.
Status SetItem(Tensor& x, const Index& index, const Tensor& value);

}  // namespace belay

#endif  // BELAY_INDEXING_H_
