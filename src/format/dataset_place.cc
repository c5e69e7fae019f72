#include "format/dataset_place.h"

#include "plan/chunks/default_chunks.h"

namespace belay {
namespace {

// Bytes that a dataset takes up in its file, or -1 if that is not a number.
int64_t BytesInFile(const StoredDataset& dataset, int64_t element_size) {
  Shape shape = dataset.box.shape;
  if (!dataset.chunk.empty()) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] > INT64_MAX - dataset.chunk[i]) return -1;
      shape[i] = (shape[i] + dataset.chunk[i] - 1) / dataset.chunk[i] *
                 dataset.chunk[i];
    }
  }
  if (!HasBytes(shape, element_size)) return -1;
  return NumElements(shape) * element_size;
}

// Whether a file of this length can hold the chunks of a dataset with filters:
// each takes a byte at least, and where they lie is not said.
bool CanHoldChunks(const StoredDataset& dataset, int64_t bytes,
                   int64_t element_size, int64_t file_bytes) {
  const int64_t chunk_elements = NumElements(dataset.chunk);
  return dataset.offset == -1 &&
         chunk_elements <= kMaxChunkBytes / element_size &&
         bytes / (chunk_elements * element_size) <= file_bytes;
}

}  // namespace

bool HasBytes(const Shape& shape, int64_t element_size) {
  const StatusOr<int64_t> elements = CheckedNumElements(shape);
  return elements.ok() && *elements <= INT64_MAX / element_size;
}

bool IsInFile(const StoredDataset& dataset, int64_t element_size,
              int64_t file_bytes, bool is_filtered) {
  const int64_t bytes = BytesInFile(dataset, element_size);
  if (is_filtered) {
    return bytes >= 0 &&
           CanHoldChunks(dataset, bytes, element_size, file_bytes);
  }
  return bytes >= 0 && dataset.offset >= 0 && bytes <= file_bytes &&
         dataset.offset <= file_bytes - bytes;
}

}  // namespace belay
