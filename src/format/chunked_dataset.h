// Datasets whose bytes are stored in chunks, possibly with filters.

#ifndef BELAY_FORMAT_CHUNKED_DATASET_H_
#define BELAY_FORMAT_CHUNKED_DATASET_H_

#include <span>

#include "absl/functional/function_ref.h"
#include "belay/values/save_args.h"
#include "format/bounded_file.h"

namespace belay::h5 {

// How a dataset's chunks are found. HDF5 uses these kinds for fixed shapes, the
// only shapes that belay writes.
enum class ChunkIndex : uint8_t {
  kSingle = 1,      // there is only one chunk
  kImplicit = 2,    // chunks are contiguous
  kFixedArray = 3,  // a table has their addresses
};

struct ChunkedDataset {
  std::string type;  // as EncodedType, with or without `in_file`
  Shape shape;       // the number of elements may overflow int64_t
  Shape chunk;
  int64_t element_bytes = 0;
  std::vector<Filter> filters;  // in the order in which they were applied
  ChunkIndex index = ChunkIndex::kImplicit;
  int64_t address = -1;  // of the table, the only chunk or the first chunk
  // Set for a single chunk with filters.
  int64_t stored_bytes = 0;
  uint32_t left_out = 0;
};

// The stored bytes of a chunk.
struct StoredChunk {
  int64_t address = -1;
  int64_t bytes = 0;
  uint32_t left_out = 0;  // skipped filters, as in UndoFilters
};

// Parses the layout message of a chunked dataset. Requires the other members of
// `dataset` to be set.
// Errors: DataLoss - damaged; Unimplemented - an index of another kind.
Status ParseChunks(std::string_view message, ChunkedDataset& dataset);

// Returns the unfiltered bytes of a chunk, in full even at the edges. `corner`
// is the chunk's first element, which is in the dataset. Allocates memory for
// the chunk in both forms, in addition to the file's budget.
// Errors: DataLoss - damaged or missing; Unimplemented - a filter that CanUndo
//   does not know; those of BoundedFile.
StatusOr<std::string> ReadChunk(BoundedFile& file,
                                const ChunkedDataset& dataset,
                                const Shape& corner);

// Calls `visit` with each stored chunk of a dataset, in row-major order, until
// the first error. Checks that each chunk is inside the file. Allocates no
// memory for chunks.
// Errors: those of `visit`, and those of ReadChunk about a chunk's place.
Status ForEachStoredChunk(BoundedFile& file, const ChunkedDataset& dataset,
                          absl::FunctionRef<Status(const StoredChunk&)> visit);

// Returns the corner of the chunk with this number in row-major order.
Shape FindChunkCorner(const ChunkedDataset& dataset, int64_t number);

// Returns the unfiltered size of a chunk in bytes.
int64_t ChunkBytes(const ChunkedDataset& dataset);

// Returns true if UndoFilters supports all of them, whatever their parameters:
// HDF5's deflate, shuffle and Fletcher32, each at most once.
bool CanUndo(const std::vector<Filter>& filters);

// Parses the message that lists a dataset's filters. Returns them in the order
// in which they were applied.
// Errors: DataLoss - damaged, more than 32 filters, or more than one shuffle.
StatusOr<std::vector<Filter>> ParseFilterPipeline(std::string_view message);

// Returns the most bytes that these filters can make of `bytes` bytes. Requires
// CanUndo.
int64_t MostFilteredBytes(std::span<const Filter> filters, int64_t bytes);

// Returns the most bytes that `stored` bytes can unpack to; nothing if a
// filter's limit is unknown. If bit i of `left_out` is set, filter i was not
// applied.
std::optional<int64_t> MostUnfilteredBytes(std::span<const Filter> filters,
                                           uint32_t left_out, int64_t stored);

// Returns the unfiltered bytes of a chunk, exactly `bytes`. If bit i of
// `left_out` is set, filter i was not applied. Requires CanUndo. Never
// allocates much more than `bytes`, nor than 1040 times the stored bytes, the
// limit of deflate.
// Errors: DataLoss - damaged, or another number of bytes.
StatusOr<std::string> UndoFilters(std::string stored,
                                  const std::vector<Filter>& filters,
                                  uint32_t left_out, int64_t bytes);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_CHUNKED_DATASET_H_
