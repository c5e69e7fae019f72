// Chunks of datasets: their shapes and their filters.

#ifndef BELAY_PLAN_CHUNKS_H_
#define BELAY_PLAN_CHUNKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "belay/arrays/box.h"
#include "belay/status.h"
#include "belay/values/save_args.h"

namespace belay {

// Filters of chunks: checked, and as text for the index.

// Checks filters that chunks are to pass in a save.
// Errors: InvalidArgument - a number that HDF5 gives to no filter, a filter of
//   HDF5's own that a number and parameters do not describe (szip, nbit,
//   scaleoffset), one of the others more than once, or too many filters or
//   parameters.
Status CheckFilters(const std::vector<Filter>& filters);

// Whether any bytes come back from these filters as they were: so from those of
// HDF5's own that pass CheckFilters. What plugins do is not known.
bool AreLossless(const std::vector<Filter>& filters);

// "2(4),1(6)": the numbers of the filters in turn, each with its parameters.
std::string FiltersText(const std::vector<Filter>& filters);

// "shuffle, deflate(6)": the same for people.
std::string DescribeFilters(const std::vector<Filter>& filters);

// Also those that are no longer for saves.
// Errors: DataLoss - no such text, or of filters that cannot be.
StatusOr<std::vector<Filter>> ParseFilters(std::string_view text);

// Divisors of axis lengths.

struct PrimePower {
  int64_t prime = 0;
  int exponent = 0;
};

// The prime powers of a number, or of a product; each prime once.
using PrimePowers = absl::InlinedVector<PrimePower, 12>;

// Primes up to this one are searched for. What is left of a number without
// them counts as one prime, which is true of every number below 2^40.
inline constexpr int64_t kLargestSearchedPrime = int64_t{1} << 20;

// Returns those of `number` >= 1; none of 1.
PrimePowers Factorize(int64_t number);

// Multiplies the number that `powers` stands for by the one of `factors`.
void MultiplyBy(absl::Span<const PrimePower> factors, PrimePowers& powers);

// Most numbers have few, which need no allocation.
using DivisorList = absl::InlinedVector<int64_t, 128>;

// Returns all divisors up to `limit` >= 1, in no order.
DivisorList DivisorsUpTo(int64_t limit, absl::Span<const PrimePower> powers);

// Returns the largest of them.
int64_t LargestDivisorUpTo(int64_t limit, absl::Span<const PrimePower> powers);

// Returns all divisors of `number` >= 1 in ascending order.
DivisorList Divisors(int64_t number);

// Chunks that are asked for: given as shapes, or as a number of bytes.
//
// The shard shape is that of the cells of the array's cut; cells at the
// far ends may be smaller. Chunks form a regular grid that starts at the first
// element of the array, so their borders meet those of the cells where their
// lengths divide the shard's.

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

// Chunk shapes chosen by size.
//
// HDF5 does not want chunks to divide anything: the last chunk of an axis
// may be ragged, that is, reach past the end of the array, where it takes space
// but nothing is written. So dividing is a wish, and the size is not.

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
// more than 2^40 elements may miss divisors, see plan/chunks.h.
StatusOr<Shape> ExactChunkShape(const ChunkRequest& request);

// Chunking: whether an array is stored contiguously or one chunk per shard, and
// how many chunks there may be.

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

#endif  // BELAY_PLAN_CHUNKS_H_
