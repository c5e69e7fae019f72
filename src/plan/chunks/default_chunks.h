// Chunking: whether an array is stored contiguously or one chunk per shard, and
// how many chunks there may be.

#ifndef BELAY_PLAN_CHUNKS_DEFAULT_CHUNKS_H_
#define BELAY_PLAN_CHUNKS_DEFAULT_CHUNKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/status.h"

namespace belay {

// Pieces whose contiguous runs in the array are at least this long are written
// as fast into a contiguous dataset as into one of their own.
inline constexpr int64_t kLongRunBytes = int64_t{256} << 10;

// HDF5 refuses chunks of 4 GiB or more.
inline constexpr int64_t kMaxChunkBytes = (int64_t{4} << 30) - 1;

// Returns the shape of the cells if the boxes are those of a regular grid: all
// equal, smaller ones only at the far ends. Empty if they are not, if there are
// none, and for a scalar. `boxes` as below.
Shape CellShape(const Shape& shape, const std::vector<const Box*>& boxes);

// Returns the shape of the chunks, or an empty one for contiguous. `boxes` are
// disjoint, tile the array and are in ascending order. Chunks are chosen where
// the boxes are the cells of a regular grid and contiguous storage would cut
// them into short runs.
Shape ChooseChunkShape(const Shape& shape, int64_t element_size,
                       const std::vector<const Box*>& boxes);

// The chunks of a checkpoint, counted dataset by dataset. A plan has some
// hundred bytes for each, and a file claims any number of them in a few bytes:
// so a dataset has at most a million (2^20), and a checkpoint sixteen million
// (2^24), both and one more for each 64 KiB of values.
class ChunkCount {
 public:
  // Messages begin with `operation`.
  explicit ChunkCount(std::string operation)
      : operation_(std::move(operation)) {}

  // Adds those of a dataset of a key; `chunk` is empty if it has none. Its
  // elements, chunks overhanging, can be counted.
  // Errors: ResourceExhausted - they are too many.
  Status Add(std::string_view key, const Shape& shape, const Shape& chunk,
             int64_t element_size);

 private:
  std::string operation_;
  int64_t chunks_ = 0;
  int64_t more_ = 0;  // that the bytes up to here allow
};

}  // namespace belay

#endif  // BELAY_PLAN_CHUNKS_DEFAULT_CHUNKS_H_
