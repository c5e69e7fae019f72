#include "format/dataset_place.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "belay/values/save_args.h"
#include "plan/chunks.h"

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

// The fewest bytes that a file has for those of a dataset with filters: zlib
// makes a byte of no more than about a thousand; filters of others may make any
// number, so none are asked for.
int64_t LeastFilteredBytes(const StoredDataset& dataset, int64_t element_size) {
  constexpr int kDeflate = 1, kShuffle = 2, kFletcher32 = 3;  // in HDF5
  // A zlib stream has a header as well, and a chunk one byte at least.
  constexpr int64_t kMostInflated = 2 * 1040;
  int64_t ratio = 1;
  for (const Filter& filter : dataset.filters) {
    if (filter.id == kDeflate) ratio = kMostInflated;
    const bool is_known = filter.id == kDeflate || filter.id == kShuffle ||
                          filter.id == kFletcher32;
    if (!is_known) return 0;
  }
  return NumElements(dataset.box.shape) * element_size / ratio;
}

// The datasets whose places are known and that have bytes, ascending by file
// and place.
std::vector<int32_t> InOrderOfPlaces(const SavedCheckpoint& saved) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < saved.datasets.size(); ++i) {
    const StoredDataset& dataset = saved.datasets[i];
    if (dataset.offset < 0 || IsEmpty(dataset.box)) continue;
    order.push_back(static_cast<int32_t>(i));
  }
  const auto is_before = [&](int32_t a, int32_t b) {
    const StoredDataset& one = saved.datasets[a];
    const StoredDataset& other = saved.datasets[b];
    return one.file != other.file ? one.file < other.file
                                  : one.offset < other.offset;
  };
  if (!std::is_sorted(order.begin(), order.end(), is_before)) {
    std::sort(order.begin(), order.end(), is_before);
  }
  return order;
}

}  // namespace

Status CheckBytesCountOnce(const SavedCheckpoint& saved,
                           const std::string& path) {
  absl::flat_hash_set<std::string_view> names;
  for (const StoredFile& file : saved.files) {
    if (names.insert(file.name).second) continue;
    return absl::DataLossError(absl::StrFormat(
        "read \"%s\": file \"%s\" is listed twice", path, file.name));
  }
  const StoredDataset* last = nullptr;
  int64_t end = 0;  // of the last one
  for (const int32_t i : InOrderOfPlaces(saved)) {
    const StoredDataset& dataset = saved.datasets[i];
    if (last != nullptr && last->file == dataset.file && dataset.offset < end) {
      return absl::DataLossError(absl::StrFormat(
          "read \"%s\": datasets of \"%s\" and \"%s\" share bytes of file "
          "\"%s\" "
          "(need an offset of at least %d, found %d)",
          path, saved.arrays[last->array].key, saved.arrays[dataset.array].key,
          saved.files[dataset.file].name, end, dataset.offset));
    }
    const DType dtype = saved.arrays[dataset.array].dtype;
    end = dataset.offset + BytesInFile(dataset, IoElementSize(dtype));
    last = &dataset;
  }
  return absl::OkStatus();
}

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

Status CheckFilteredFit(const SavedCheckpoint& saved, const std::string& path) {
  std::vector<int64_t> needed(saved.files.size());
  for (const StoredDataset& dataset : saved.datasets) {
    if (dataset.filters.empty()) continue;
    const StoredArray& array = saved.arrays[dataset.array];
    const int64_t least =
        LeastFilteredBytes(dataset, IoElementSize(array.dtype));
    const StoredFile& file = saved.files[dataset.file];
    int64_t& sum = needed[dataset.file];
    if (least > file.bytes - sum) {
      return absl::DataLossError(absl::StrFormat(
          "read \"%s\": key \"%s\": file \"%s\" is too short for what it is "
          "said "
          "to hold (need %d bytes or more and %d for others, found %d)",
          path, array.key, file.name, least, sum, file.bytes));
    }
    sum += least;
  }
  return absl::OkStatus();
}

}  // namespace belay
