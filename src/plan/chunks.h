// Chunks of datasets: the arguments of values that request them, their shapes
// and their filters.

#ifndef BELAY_PLAN_CHUNKS_H_
#define BELAY_PLAN_CHUNKS_H_

#include "core/keys.h"
#include "plan/choose_ranks.h"

namespace belay {

// Arguments with their expressions, in the order in which they are tried.
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

// Returns the dtype to store a value as. `f32_dtype` is for f32 values whose
// arguments name none. An expression that is the key itself converts any value;
// a pattern only values of its kind: floating, integer, complex or bool.
// Errors: InvalidArgument - no such conversion; names the key.
StatusOr<DType> DTypeToStore(const ArgsByKey& args, DType f32_dtype,
                             std::string_view key, DType dtype);

// Records the arguments in the arrays, and gives datasets the chunks and
// filters that they request. Datasets and `arrays` are those of the plan.
// Errors: InvalidArgument - those of GivenChunkShapes and MaxChunkElements;
//   arguments that match no key of the plan; chunks under
//   ArrayLayout::kCanonical.
Status ChunkAsAsked(const std::vector<SaveArgsFor>& args, ArrayLayout layout,
                    const std::vector<ArrayBoxes>& arrays, SavePlan& plan);

// Returns the arguments as bytes, to compare them.
std::string EncodeArgs(const std::vector<SaveArgsFor>& args);

// --- Filters ---

// Checks the filters of a save.
// Errors: InvalidArgument - a number that no filter has, a filter of HDF5
//   itself that number and parameters do not describe (szip, nbit,
//   scaleoffset), one of its others more than once, too many filters or
//   parameters.
Status CheckFilters(const std::vector<Filter>& filters);

// Returns whether the filters return all bytes unchanged: HDF5's own do,
// plugins may not.
bool AreLossless(const std::vector<Filter>& filters);

// Returns the numbers of the filters with their parameters, "2(4),1(6)".
std::string FiltersText(const std::vector<Filter>& filters);

// Returns the filters for people, "shuffle, deflate(6)".
std::string DescribeFilters(const std::vector<Filter>& filters);

// Also accepts filters that saves refuse.
// Errors: DataLoss - the text names no filters, or impossible ones.
StatusOr<std::vector<Filter>> ParseFilters(std::string_view text);

struct PrimePower {
  int64_t prime = 0;
  int exponent = 0;
};

// The prime powers of a number; each prime once.
using PrimePowers = absl::InlinedVector<PrimePower, 12>;

// Primes up to this one are searched for. The rest of a number counts as one
// prime, which is true of every number below 2^40.
inline constexpr int64_t kLargestSearchedPrime = int64_t{1} << 20;

// Requires `number` >= 1; 1 has none.
PrimePowers Factorize(int64_t number);

void MultiplyBy(absl::Span<const PrimePower> factors, PrimePowers& powers);

// Most numbers have few divisors, which need no allocation.
using DivisorList = absl::InlinedVector<int64_t, 128>;

// Returns all divisors up to `limit` >= 1, in no order.
DivisorList DivisorsUpTo(int64_t limit, absl::Span<const PrimePower> powers);

int64_t LargestDivisorUpTo(int64_t limit, absl::Span<const PrimePower> powers);

// Returns all divisors of `number` >= 1 in ascending order.
DivisorList Divisors(int64_t number);

// Chunks that arguments request, as shapes or as a number of bytes.
//
// The cells of a regular cut of an array have the shape of the shard; those at
// the far ends may be smaller. Chunks form a grid that begins at the first
// element, so their borders meet those of cells if their lengths divide the
// shard.

struct ChunkRequest {
  std::string key;
  Shape global_shape;
  Shape shard_shape;
  int64_t element_size = 0;     // bytes as stored, after any conversion
  int64_t chunk_byte_size = 0;  // at most; 0 means one chunk per shard
  std::vector<int> shard_axes;  // get chunks of length 1; in any order
};

// A chunk to write at once, and the smaller ones inside it to read.
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

// Checks the request, and returns the most elements of a chunk: those that fit
// into chunk_byte_size, and always less than 4 GiB.
// Errors: InvalidArgument - chunk_byte_size is negative or below one element,
//   shard_axes names no axis, an impossible shape or element size, or a shard
//   larger than its array.
StatusOr<int64_t> MaxChunkElements(const ChunkRequest& request);

// Returns whether a chunk has at most that many elements, without overflow.
bool HasAtMost(int64_t limit, const Shape& chunk);

// HDF5 chunks need not divide anything: the last chunk of an axis may reach
// past the end of the array. So dividing is a wish, and the size is a limit.
//
// The two choosers below return a shape of at most chunk_byte_size and less
// than 4 GiB, with all lengths at least 1, inside the shard. A scalar gives a
// scalar. Errors: those of MaxChunkElements.

// Chooses as Orbax does: from the whole shard on, it reduces the longest axis
// to its next smaller divisor until the size fits; axes that are cut between
// shards go first. The result divides the shard but may be far too small, such
// as one row of an array with a prime number of rows.
StatusOr<Shape> GreedyChunkShape(const ChunkRequest& request);

// Chooses the first of these that has at least half of the allowed size:
//   1. The shape with most elements among those that divide the shard; of
//   several, the one with the longest last axes.
//   2. A shape with one writer per chunk: it divides the axes that are cut
//   between shards, and has any length on the others.
//   3. Any shape: the last axes are whole, one is divided into nearly equal
//   chunks, those before it have length 1. Two ranks may share a chunk.
StatusOr<Shape> ExactChunkShape(const ChunkRequest& request);

// A contiguous dataset takes pieces with runs of at least this length as fast
// as datasets of their own.
inline constexpr int64_t kLongRunBytes = int64_t{256} << 10;

// HDF5 refuses chunks of 4 GiB or more.
inline constexpr int64_t kMaxChunkBytes = (int64_t{4} << 30) - 1;

// Returns the shape of the cells if the boxes are those of a regular grid: all
// equal, smaller only at the far ends. Empty if they are not, if there are
// none, and for a scalar.
Shape CellShape(const Shape& shape, const std::vector<const Box*>& boxes);

// Returns the shape of the chunks, empty for contiguous. `boxes` tile the array
// in ascending order. Chunks pay off if the boxes are the cells of a regular
// grid and a contiguous dataset would cut them into short runs.
Shape ChooseChunkShape(const Shape& shape, int64_t element_size,
                       const std::vector<const Box*>& boxes);

// Counts the chunks of a checkpoint. A plan needs some hundred bytes for each,
// and a file can claim any number in a few bytes: so a dataset may have 2^20
// and a checkpoint 2^24, both and one more for each 64 KiB of values.
class ChunkCount {
 public:
  explicit ChunkCount(std::string operation)
      : operation_(std::move(operation)) {}

  // Adds the chunks of a dataset; `chunk` is empty if it has none. Its
  // elements, chunks overhanging, can be counted.
  // Errors: ResourceExhausted - there are too many.
  Status Add(std::string_view key, const Shape& shape, const Shape& chunk,
             int64_t element_size);

 private:
  std::string operation_;
  int64_t chunks_ = 0;
  int64_t more_ = 0;  // that the bytes up to here allow
};

}  // namespace belay

#endif  // BELAY_PLAN_CHUNKS_H_
