// Chunk shapes chosen by size.
//
// Pure. HDF5 does not want chunks to divide anything: the last chunk of an axis
// may be ragged, that is, reach past the end of the array, where it takes space
// but nothing is written. So dividing is a wish, and the size is not.

#ifndef BELAY_PLAN_CHUNKS_CHUNK_SHAPE_BY_SIZE_H_
#define BELAY_PLAN_CHUNKS_CHUNK_SHAPE_BY_SIZE_H_

#include "belay/arrays/box.h"
#include "belay/status.h"
#include "plan/chunks/chunk_request.h"

namespace belay {

// The two choosers below return a shape of at most chunk_byte_size, and always
// less than 4 GiB, with all lengths at least 1: an axis without elements counts
// as one of length 1. It stays inside the shard. A scalar gives a scalar.
// Errors: those of MaxChunkElements.

// Chooses as Orbax does: from the whole shard on, the longest axis is reduced
// to its next smaller divisor until the size fits; axes that are cut between
// shards go first. The result divides the shard but may be far too small: one
// row of an array with a prime number of rows.
StatusOr<Shape> GreedyChunkShape(const ChunkRequest& request);

// Chooses the first of these that holds at least half of what the size allows,
// or the whole shard:
// 1. Of all shapes that divide the shard the one with most elements; of several
//    the one with the longest last axis, then the axis before it, and so on.
// 2. A shape with one writer for each chunk: it divides on the axes that are
//    cut between shards, and may have any length on the others.
// 3. Any shape: the last axes are whole, one is divided into chunks that are
//    nearly equal, those before it have length 1. Two ranks may share a chunk.
// So there are never many more chunks than needed, and few are ragged. Axes of
// more than 2^40 elements may miss divisors, see plan/chunks/divisors.h.
StatusOr<Shape> ExactChunkShape(const ChunkRequest& request);

}  // namespace belay

#endif  // BELAY_PLAN_CHUNKS_CHUNK_SHAPE_BY_SIZE_H_
