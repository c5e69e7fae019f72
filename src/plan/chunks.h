// Chunks of datasets: the save arguments that request them, their shapes and
// their filters.

#ifndef BELAY_PLAN_CHUNKS_H_
#define BELAY_PLAN_CHUNKS_H_

#include "core/keys.h"
#include "plan/choose_ranks.h"

namespace belay {

// Save arguments with their key expressions, in the order in which they are
// tried.
struct ArgsByKey {
  KeyPatterns patterns;
  std::vector<SaveArgs> args;
  std::vector<std::string> keys;  // the expressions
};

// Errors: InvalidArgument - not a regular expression, or an unknown dtype,
//   chooser or filter.
StatusOr<ArgsByKey> CompileArgs(const std::vector<SaveArgsFor>& args);

// Returns the arguments of the first expression that matches, or the defaults.
const SaveArgs& FindArgs(const ArgsByKey& args, std::string_view key);

// Returns the dtype to store a value as. `f32_dtype` applies to f32 values
// whose arguments name no dtype. An expression that is the key itself converts
// any value. A pattern converts only values of the same kind as the named
// dtype: floating, integer, complex or bool.
// Errors: InvalidArgument - no such conversion; names the key.
StatusOr<DType> DTypeToStore(const ArgsByKey& args, DType f32_dtype,
                             std::string_view key, DType dtype);

// Records the arguments in the arrays of the plan, and gives its datasets the
// chunks and filters that the arguments request. `arrays` has the boxes of the
// plan's arrays.
// Errors: InvalidArgument - those of GivenChunkShapes and MaxChunkElements;
//   arguments that match no key of the plan; chunks under
//   ArrayLayout::kCanonical.
Status ChunkAsAsked(const std::vector<SaveArgsFor>& args, ArrayLayout layout,
                    const std::vector<ArrayBoxes>& arrays, SavePlan& plan);

// Returns the arguments as bytes, to compare them.
std::string EncodeArgs(const std::vector<SaveArgsFor>& args);

// --- Filters ---

// Checks the filters of a save.
// Errors: InvalidArgument - a filter number that is out of range, a filter of
//   HDF5 that number and parameters do not fully describe (szip, nbit,
//   scaleoffset), another filter of HDF5 more than once, too many filters or
//   parameters.
Status CheckFilters(const std::vector<Filter>& filters);

// Returns true if the filters are known to preserve all bytes: deflate, shuffle
// and fletcher32 do, others may not.
bool AreLossless(const std::vector<Filter>& filters);

// Returns the numbers of the filters with their parameters, "2(4),1(6)".
std::string FiltersText(const std::vector<Filter>& filters);

// Returns the filters in readable form, "shuffle, deflate(6)".
std::string DescribeFilters(const std::vector<Filter>& filters);

// Parses the output of FiltersText. Also accepts filters that saves reject.
// Errors: DataLoss - the text names no filters, or impossible ones.
StatusOr<std::vector<Filter>> ParseFilters(std::string_view text);

struct PrimePower {
  int64_t prime = 0;
  int exponent = 0;
};

// The prime powers of a number, one for each prime.
using PrimePowers = absl::InlinedVector<PrimePower, 12>;

// Prime factors up to this number are searched for. What remains of a number is
// taken as one prime, which is correct for every number below 2^40.
inline constexpr int64_t kLargestSearchedPrime = int64_t{1} << 20;

// Requires `number` >= 1; the result is empty for 1.
PrimePowers Factorize(int64_t number);

void MultiplyBy(absl::Span<const PrimePower> factors, PrimePowers& powers);

// Most numbers have few divisors, which need no allocation.
using DivisorList = absl::InlinedVector<int64_t, 128>;

// Returns all divisors up to `limit` >= 1, in no particular order.
DivisorList DivisorsUpTo(int64_t limit, absl::Span<const PrimePower> powers);

int64_t LargestDivisorUpTo(int64_t limit, absl::Span<const PrimePower> powers);

// Returns all divisors of `number` >= 1 in ascending order.
DivisorList Divisors(int64_t number);

// Chunks that arguments request, as shapes or as a number of bytes.
//
// A regular partition divides an array into cells with the shape of the shard;
// cells at the far ends may be smaller. Chunks form a grid that begins at the
// first element, so chunk borders match cell borders if the chunk lengths
// divide the lengths of the shard.

struct ChunkRequest {
  std::string key;
  Shape global_shape;
  Shape shard_shape;
  int64_t element_size = 0;     // bytes as stored, after any conversion
  int64_t chunk_byte_size = 0;  // at most; 0 means one chunk per shard
  std::vector<int> shard_axes;  // axes with chunk length 1, in any order
};

// The chunk to write as a whole, and the smaller chunks inside it to read.
struct ChunkShapes {
  Shape write;
  Shape read;
};

// The write chunk defaults to the shard, the read chunk to the write chunk.
// Errors: InvalidArgument - a write chunk that does not divide the shard, or a
//   read chunk that does not divide the write chunk, each with its axis; a read
//   chunk of 4 GiB or more; a request with chunk_byte_size or shard_axes; an
//   impossible shape or element size.
StatusOr<ChunkShapes> GivenChunkShapes(const ChunkRequest& request,
                                       const std::optional<Shape>& write,
                                       const std::optional<Shape>& read);

// Checks the request, and returns the maximum number of elements of a chunk. A
// chunk must fit into chunk_byte_size and must be smaller than 4 GiB.
// Errors: InvalidArgument - chunk_byte_size is negative or below one element,
//   shard_axes names no axis, an impossible shape or element size, or a shard
//   larger than its array.
StatusOr<int64_t> MaxChunkElements(const ChunkRequest& request);

// Returns true if a chunk has at most `limit` elements. Does not overflow.
bool HasAtMost(int64_t limit, const Shape& chunk);

// HDF5 chunks need not divide the shard or the array: the last chunk of an axis
// may extend past the end of the array. Divisibility is therefore a preference,
// and the size is a hard limit.
//
// The two choosers below return a shape of at most chunk_byte_size and less
// than 4 GiB, with all lengths at least 1, inside the shard. The chunk of a
// scalar is a scalar.
// Errors: those of MaxChunkElements.

// Chooses as Orbax does: starting from the whole shard, it reduces the longest
// axis to its next smaller divisor until the size fits. Axes that are cut
// between shards are reduced first. The result divides the shard but may be far
// too small, such as one row of an array with a prime number of rows.
StatusOr<Shape> GreedyChunkShape(const ChunkRequest& request);

// Chooses the first of these shapes that has at least half of the allowed size:
//   1. The largest shape that divides the shard; among equals, the one with the
//   longest last axes.
//   2. A shape with one writer per chunk: it divides the axes that are cut
//   between shards, and has any length along the other axes.
//   3. Any shape: the last axes are whole, one axis is divided into nearly
//   equal chunks, and the axes before it have length 1. Two ranks may share a
//   chunk.
StatusOr<Shape> ExactChunkShape(const ChunkRequest& request);

// Writing pieces with runs of at least this length into one contiguous dataset
// is as fast as writing each piece into a separate dataset.
inline constexpr int64_t kLongRunBytes = int64_t{256} << 10;

// HDF5 refuses chunks of 4 GiB or more.
inline constexpr int64_t kMaxChunkBytes = (int64_t{4} << 30) - 1;

// Returns the shape of the cells if the boxes form a regular grid: all equal,
// smaller only at the far ends. Otherwise, and for a scalar, returns an empty
// shape.
Shape CellShape(const Shape& shape, const std::vector<const Box*>& boxes);

// Returns the shape of the chunks; empty: contiguous. `boxes` tile the array in
// ascending order. Chunks pay off if the boxes are the cells of a regular grid
// and a contiguous dataset would cut them into short runs.
Shape ChooseChunkShape(const Shape& shape, int64_t element_size,
                       const std::vector<const Box*>& boxes);

// Counts the chunks of a checkpoint and limits their number: a plan needs a few
// hundred bytes for each chunk, and a file of a few bytes can claim any number.
// The limits are 2^20 for a dataset and 2^24 for a checkpoint, each plus one
// chunk per 64 KiB of values.
class ChunkCount {
 public:
  explicit ChunkCount(std::string operation)
      : operation_(std::move(operation)) {}

  // Adds the chunks of a dataset; `chunk` is empty if it has none. The number
  // of elements in its chunks must not overflow.
  // Errors: ResourceExhausted - there are too many.
  Status Add(std::string_view key, const Shape& shape, const Shape& chunk,
             int64_t element_size);

 private:
  std::string operation_;
  int64_t chunks_ = 0;
  int64_t more_ = 0;  // additional chunks allowed by the bytes so far
};

}  // namespace belay

#endif  // BELAY_PLAN_CHUNKS_H_
