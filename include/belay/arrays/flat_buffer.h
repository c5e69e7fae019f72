// Flat buffers: arrays, or pieces of arrays, concatenated in one buffer. Each
// rank holds a range of it.
//
// ZeRO-1 stores optimizer state this way, and FSDP1 the parameters of a layer.
// A range may begin and end within a row, so the part of an array that a rank
// holds is not a box. It consists of at most 2 * ndim - 1 boxes, whose elements
// are consecutive in the buffer. Each rank lists its boxes where they are in
// memory, and no values are communicated:
//
//   const std::vector<belay::FlatPiece> pieces = {
//       {.key = "w", .global_shape = {300, 40}}, {.key = "b", ...}};
//   state.AddFlatRange("adam/m/", pieces, begin, end, m);

#ifndef BELAY_ARRAYS_FLAT_BUFFER_H_
#define BELAY_ARRAYS_FLAT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/status.h"

namespace belay {

// A piece of an array in a flat buffer, where it is dense and row-major.
struct FlatPiece {
  std::string key;
  Shape global_shape;
  std::optional<Box> box = {};  // unset: the whole array
  // Position of its first element in the buffer; unset: right after the
  // previous piece.
  std::optional<int64_t> begin = {};
  int64_t replica = 0;  // as in Shard
};

// A box of a piece whose elements are all in a range of the buffer.
struct FlatBox {
  size_t piece = 0;
  Box box;
  int64_t position = 0;  // of its first element in the range

  friend bool operator==(const FlatBox&, const FlatBox&) = default;
};

// Returns the elements [begin, end) of `box`, counted row-major, as the fewest
// boxes, ascending: at most 2 * ndim - 1, one for a scalar. Requires that the
// range is inside the box. Local.
std::vector<Box> BoxesOfRange(const Box& box, int64_t begin, int64_t end);

// Returns the boxes of the pieces in the elements [begin, end) of their buffer,
// ascending; a piece without elements occurs exactly once. Gaps between pieces
// and after the last one are padding. Local.
// Errors: InvalidArgument, OutOfRange - the range is invalid; a piece is not a
//   box of its array, begins before the end of the previous one, or ends past
//   2^63.
StatusOr<std::vector<FlatBox>> BoxesOfFlatRange(
    const std::vector<FlatPiece>& pieces, int64_t begin, int64_t end);

}  // namespace belay

#endif  // BELAY_ARRAYS_FLAT_BUFFER_H_
