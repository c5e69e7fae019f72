// Chunks that are asked for: given as shapes, or as a number of bytes.
//
// Pure. The shard shape is that of the cells of the array's cut; cells at the
// far ends may be smaller. Chunks form a regular grid that starts at the first
// element of the array, so their borders meet those of the cells where their
// lengths divide the shard's.

#ifndef BELAY_PLAN_CHUNKS_CHUNK_REQUEST_H_
#define BELAY_PLAN_CHUNKS_CHUNK_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/status.h"

namespace belay {

// What is known of an array, and what is asked for.
struct ChunkRequest {
  std::string key;
  Shape global_shape;
  Shape shard_shape;
  int64_t element_size = 0;     // bytes as stored, after any conversion
  int64_t chunk_byte_size = 0;  // at most; 0 means one chunk per shard
  std::vector<int> shard_axes;  // get chunks of length 1; in any order
};

// A chunk to write at once, and the smaller ones to read inside it.
struct ChunkShapes {
  Shape write;
  Shape read;
};

// Returns whether `part` has as many axes as `whole` and each length divides
// the one there. A length of 0 or less divides nothing.
bool DividesShape(const Shape& part, const Shape& whole);

// Fills in what is not given: the write chunk is the shard, the read chunk is
// the write chunk.
// Errors: InvalidArgument - a write chunk that does not divide the shard, or a
//   read chunk that does not divide the write chunk, each with its axis; a read
//   chunk of 4 GiB or more; a request with chunk_byte_size or shard_axes, which
//   choose; a shape or element size of the array that is none.
StatusOr<ChunkShapes> GivenChunkShapes(const ChunkRequest& request,
                                       const std::optional<Shape>& write,
                                       const std::optional<Shape>& read);

// Checks all of the request, and returns the most elements that a chunk may
// have: what chunk_byte_size has room for, and always less than 4 GiB.
// Errors: InvalidArgument - chunk_byte_size is negative or below one element,
//   an axis in shard_axes that is none, a shape or element size of the array
//   that is none, or a shard that is larger than its array.
StatusOr<int64_t> MaxChunkElements(const ChunkRequest& request);

// Returns the chunk for a request without a limit: the shard, with length 1 on
// the shard_axes and on axes without elements.
Shape LargestChunk(const ChunkRequest& request);

// Returns whether a chunk has at most that many elements. Multiplies nothing,
// so nothing overflows.
bool HasAtMost(int64_t limit, const Shape& chunk);

}  // namespace belay

#endif  // BELAY_PLAN_CHUNKS_CHUNK_REQUEST_H_
