// Datasets whose bytes lie in chunks, which may have passed filters.

#ifndef BELAY_FORMAT_CHUNKED_DATASET_H_
#define BELAY_FORMAT_CHUNKED_DATASET_H_

#include <span>

#include "absl/functional/function_ref.h"
#include "belay/values/save_args.h"
#include "format/bounded_file.h"

namespace belay::h5 {

// The index of the chunks of a dataset. HDF5 uses these kinds for fixed shapes,
// as all are that belay writes.
enum class ChunkIndex : uint8_t {
  kSingle = 1,      // one chunk holds all
  kImplicit = 2,    // all chunks follow each other
  kFixedArray = 3,  // a table has their places
};

struct ChunkedDataset {
  std::string type;  // as EncodedType, in a file or not
  Shape shape;       // of possibly more elements than an int64_t can count
  Shape chunk;
  int64_t element_bytes = 0;
  std::vector<Filter> filters;  // in the order in which they were applied
  ChunkIndex index = ChunkIndex::kImplicit;
  int64_t address = -1;  // of the table, of the one chunk, or of the first
  // The only chunk, if it has passed filters.
  int64_t stored_bytes = 0;
  uint32_t left_out = 0;
};

// The stored bytes of a chunk.
struct StoredChunk {
  int64_t address = -1;
  int64_t bytes = 0;
  uint32_t left_out = 0;  // filters, as in UndoFilters
};

// Takes the layout message of a chunked dataset apart, whose other members are
// known.
// Errors: DataLoss - damaged; Unimplemented - an index of another kind.
Status ParseChunks(std::string_view message, ChunkedDataset& dataset);

// Returns the bytes of a chunk, whole also at the edges. `corner` is its first
// element, and lies in the dataset. Takes memory for the chunk, in both forms,
// beside the budget of the file.
// Errors: DataLoss - damaged, or it is not there; Unimplemented - a filter that
//   CanUndo does not know; those of BoundedFile.
StatusOr<std::string> ReadChunk(BoundedFile& file,
                                const ChunkedDataset& dataset,
                                const Shape& corner);

// Calls `visit` with each chunk of a dataset in row-major order, whose stored
// bytes lie in the file, and ends with the first error. Takes no memory for
// chunks.
// Errors: those of `visit`, and of ReadChunk for where a chunk lies.
Status ForEachStoredChunk(BoundedFile& file, const ChunkedDataset& dataset,
                          absl::FunctionRef<Status(const StoredChunk&)> visit);

// Returns the corner of the chunk with this number, in row-major order.
Shape FindChunkCorner(const ChunkedDataset& dataset, int64_t number);

// Returns the bytes of a chunk behind its filters.
int64_t ChunkBytes(const ChunkedDataset& dataset);

// Returns whether UndoFilters knows them all, whatever their parameters:
// deflate, shuffle and Fletcher32 of HDF5, each once.
bool CanUndo(const std::vector<Filter>& filters);

// Takes the message of a dataset that names its filters apart, in the order in
// which they were applied.
// Errors: DataLoss - damaged, more than 32 filters, or more than one shuffle.
StatusOr<std::vector<Filter>> ParseFilterPipeline(std::string_view message);

// Returns the most bytes that these filters make of `bytes`. Requires CanUndo.
int64_t MostFilteredBytes(std::span<const Filter> filters, int64_t bytes);

// Returns the most bytes that `stored` bytes can unpack to; nothing if that is
// not known of a filter. Bit i of `left_out` says
// that filter i was not applied.
std::optional<int64_t> MostUnfilteredBytes(std::span<const Filter> filters,
                                           uint32_t left_out, int64_t stored);

// Returns the bytes of a chunk, exactly `bytes`. Bit i of `left_out` says that
// filter i was not applied. Requires CanUndo. Never takes much more memory than
// `bytes`, nor than 1040 times the stored bytes: no deflate makes more.
// Errors: DataLoss - damaged, or another number of bytes.
StatusOr<std::string> UndoFilters(std::string stored,
                                  const std::vector<Filter>& filters,
                                  uint32_t left_out, int64_t bytes);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_CHUNKED_DATASET_H_
