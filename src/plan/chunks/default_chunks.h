// Chunking: whether an array is stored contiguously or one chunk per shard.

#ifndef BELAY_PLAN_CHUNKS_DEFAULT_CHUNKS_H_
#define BELAY_PLAN_CHUNKS_DEFAULT_CHUNKS_H_

#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"

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

}  // namespace belay

#endif  // BELAY_PLAN_CHUNKS_DEFAULT_CHUNKS_H_
