// Flat buffers: arrays, or pieces of them, end to end in one buffer of which
// each rank holds a range.
//
// ZeRO-1 keeps the state of an optimizer so, and FSDP1 the parameters of a
// layer. A range begins and ends anywhere in a row, so what a rank holds of an
// array is not a box; but it is at most 2 * ndim - 1 boxes, and their elements
// follow each other in the buffer. So each rank lists what it holds as it lies,
// and no value has to travel:
//
//   const std::vector<belay::FlatPiece> pieces = {
//       {.key = "w", .global_shape = {300, 40}}, {.key = "b", ...}};
//   state.AddFlatRange("adam/m/", pieces, begin, end, m.data());

#ifndef BELAY_FLAT_BUFFER_H_
#define BELAY_FLAT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/box.h"
#include "belay/status.h"

namespace belay {

// A piece of an array as it lies in a flat buffer: dense and row-major.
struct FlatPiece {
  std::string key;
  Shape global_shape;
  std::optional<Box> box = {};  // unset: the whole array
  // Its first element in the buffer; unset: right after the piece before it.
  std::optional<int64_t> begin = {};
  int64_t replica = 0;  // as that of a Shard
};

// A box of a piece, of which all elements lie in a range of the buffer.
struct FlatBox {
  size_t piece = 0;
  Box box;
  int64_t position = 0;  // of its first element, from the range's first

  friend bool operator==(const FlatBox&, const FlatBox&) = default;
};

// Returns the elements [begin, end) of `box`, counted row-major, as the fewest
// boxes, ascending: at most 2 * ndim - 1, one for a scalar. The range lies in
// the box. Local.
std::vector<Box> BoxesOfRange(const Box& box, int64_t begin, int64_t end);

// Returns what of the pieces lies in the elements [begin, end) of their buffer,
// ascending; each piece without elements once. What lies between pieces and
// after the last is padding. Local.
// Errors: InvalidArgument, OutOfRange - the range is none; a piece is no box of
//   its array, begins before the end of the one before it, or ends past 2^63.
StatusOr<std::vector<FlatBox>> BoxesOfFlatRange(
    const std::vector<FlatPiece>& pieces, int64_t begin, int64_t end);

}  // namespace belay

#endif  // BELAY_FLAT_BUFFER_H_
