#include "storage/index_image.h"

#include <numeric>
#include <tuple>

#include "absl/strings/str_format.h"
#include "core/text.h"
#include "format/file_metadata.h"
#include "format/paths.h"
#include "format/write_links.h"

namespace belay {
namespace {

// The datasets of one array: [begin, end) of the sorted list.
using Datasets = std::span<const StoredDataset>;

// An index as it is put together.
struct IndexParts {
  std::vector<h5::DatasetSpec> datasets;
  std::vector<std::string_view> values;  // by dataset
  std::vector<h5::ExternalLink> links;
  std::vector<std::string> paths;  // of the arrays, which links borrow
};

// Shows an array under its key: a link to its dataset, or its pieces put
// together.
void PresentArray(const std::string& path, const SavedCheckpoint& saved,
                  const StoredArray& array, Datasets datasets,
                  IndexParts& parts) {
  h5::DatasetSpec spec = {.path = path,
                          .dtype = array.dtype,
                          .string_bytes = array.string_bytes,
                          .shape = array.shape,
                          .chunk = {},
                          .fields = array.fields};
  if (!datasets.empty() && datasets[0].box == WholeBox(IoShape(array))) {
    parts.links.push_back({path, saved.files[datasets[0].file].name, path});
    return;
  }
  for (const StoredDataset& dataset : datasets) {
    if (NumElements(array.shape) == 0) break;
    spec.pieces.push_back({saved.files[dataset.file].name,
                           DatasetPath(path, array, dataset), dataset.box});
  }
  parts.datasets.push_back(std::move(spec));
  parts.values.emplace_back();
}

void PresentArrays(const SavedCheckpoint& saved, IndexParts& parts) {
  parts.paths = ObjectPaths(saved.arrays);
  size_t begin = 0;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    size_t end = begin;
    while (end < saved.datasets.size() &&
           saved.datasets[end].array == static_cast<int32_t>(i)) {
      ++end;
    }
    PresentArray(parts.paths[i], saved, saved.arrays[i],
                 Datasets(saved.datasets).subspan(begin, end - begin), parts);
    begin = end;
  }
}

// Borrows the bytes.
void AddColumn(const StoredColumn& column, IndexParts& parts) {
  const bool is_text = column.dtype == DType::kString;
  parts.datasets.push_back({column.path,
                            column.dtype,
                            is_text ? column.width : 0,
                            {column.rows},
                            {}});
  parts.values.push_back(GetBytes(column));
}

// NULs fill up the shorter texts of a column.
Status CheckTexts(const char* path, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text.find('\0') != text.npos) {
      return absl::InvalidArgumentError(
          absl::StrFormat("write \"%s\": a text has a NUL in it", path));
    }
  }
  return absl::OkStatus();
}

Status CheckAllTexts(const IndexColumns& columns) {
  Status status;
  ForEachColumn(columns, [&](const char* path, const auto& column) {
    using T = typename std::decay_t<decltype(column)>::value_type;
    if constexpr (std::is_same_v<T, std::string>) {
      if (status.ok()) status = CheckTexts(path, column);
    }
  });
  return status;
}

// Explains why HDF5 has no place for the objects of an index.
Status NoPlace(const std::string& path, const IndexParts& parts) {
  const auto too_long = [&](std::string_view object, int64_t bytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "create \"%s\": the name of \"%s...\" is too long for HDF5; use a "
        "shorter key (need at most %d bytes for its last part and where it "
        "leads to, found %d)",
        path, AbslView(object.substr(0, 64)), h5::kMaxLinkBytes, bytes));
  };
  const auto check = [&](std::string_view object, std::string_view file = {},
                         std::string_view target = {}) {
    int64_t most = 0;
    for (size_t begin = 0; begin <= object.size();) {
      const size_t end = std::min(object.find('/', begin), object.size());
      h5::Link link = {.name = object.substr(begin, end - begin)};
      if (end == object.size()) link.file = file;
      if (end == object.size()) link.target = target;
      most = std::max(most, h5::LinkBytes(link));
      begin = end + 1;
    }
    return most > h5::kMaxLinkBytes ? too_long(object, most) : absl::OkStatus();
  };
  for (const h5::ExternalLink& link : parts.links) {
    BELAY_RETURN_IF_ERROR(check(link.path, link.file, link.target));
  }
  for (const h5::DatasetSpec& spec : parts.datasets) {
    BELAY_RETURN_IF_ERROR(check(spec.path));
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "create \"%s\": one group has more names than HDF5 has a place for; "
      "spread the keys over more groups (\"/\" separates them)",
      path));
}

// Returns the order of the datasets in the index: ascending by array.
std::vector<int32_t> SortDatasets(const std::vector<StoredDataset>& datasets) {
  std::vector<int32_t> order(datasets.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](int32_t i, int32_t j) {
    const StoredDataset& a = datasets[i];
    const StoredDataset& b = datasets[j];
    return std::tie(a.array, a.box.offset) < std::tie(b.array, b.box.offset);
  };
  if (!std::is_sorted(order.begin(), order.end(), is_before)) {
    std::sort(order.begin(), order.end(), is_before);
  }
  return order;
}

// Returns `saved` with its datasets in this order: itself, or a copy that is
// kept in `copy`.
const SavedCheckpoint& InOrder(const SavedCheckpoint& saved,
                               const std::vector<int32_t>& order,
                               std::optional<SavedCheckpoint>& copy) {
  if (std::is_sorted(order.begin(), order.end())) return saved;
  copy = saved;
  for (size_t i = 0; i < order.size(); ++i) {
    copy->datasets[i] = saved.datasets[order[i]];
  }
  return *copy;
}

// The columns, with a zero for every checksum to come.
IndexColumns ColumnsWithRoomForChecksums(const SavedCheckpoint& saved) {
  IndexColumns columns = ToColumns(saved);
  int64_t blocks = 0;
  for (const StoredArray& array : saved.arrays) {
    blocks += NumBlocks(ArrayBytes(array));
  }
  columns.checksum.assign(saved.has_checksums ? blocks : 0, 0);
  return columns;
}

// Puts the numbers of a column into its place in the file, and into the digest.
void PutNumbers(const char* path, int64_t offset,
                const std::vector<int64_t>& numbers, IndexImage& image) {
  const StoredColumn column = ToStoredColumn(path, numbers);
  image.structure.Add(column);
  const std::string_view bytes = GetBytes(column);
  if (offset >= 0) image.bytes.replace(offset, bytes.size(), bytes);
}

}  // namespace

StatusOr<IndexImage> DraftIndex(const std::string& path,
                                const SavedCheckpoint& saved) {
  IndexImage image{.order = SortDatasets(saved.datasets)};
  std::optional<SavedCheckpoint> copy;
  const SavedCheckpoint& sorted = InOrder(saved, image.order, copy);
  IndexParts parts;
  PresentArrays(sorted, parts);
  StoredColumns stored;
  {
    const IndexColumns columns = ColumnsWithRoomForChecksums(sorted);
    BELAY_RETURN_IF_ERROR(CheckAllTexts(columns));
    stored = ToStoredColumns(columns);
  }
  const StoredColumn digest =
      ToStoredColumn(kDigestColumn, std::vector<uint32_t>{0, 0});
  for (const StoredColumn& column : stored) {
    const bool is_known = column.path != kFileBytesColumn &&
                          column.path != kDatasetOffsetColumn &&
                          !IsValueColumn(column.path);
    if (is_known) image.structure.Add(column);
    if (column.rows > 0) AddColumn(column, parts);
  }
  AddColumn(digest, parts);
  BELAY_ASSIGN_OR_RETURN(std::optional<h5::FileMetadata> metadata,
                         h5::EncodeFileMetadata({parts.datasets, parts.links}));
  if (!metadata.has_value()) return NoPlace(path, parts);
  image.bytes = std::move(metadata->bytes);
  image.bytes.resize(metadata->file_bytes, '\0');
  for (size_t i = 0; i < parts.values.size(); ++i) {
    const int64_t offset = metadata->offsets[i];
    if (offset < 0) continue;
    image.bytes.replace(offset, parts.values[i].size(), parts.values[i]);
    const std::string& column = parts.datasets[i].path;
    if (column == kStepColumn) image.step_offset = offset;
    if (column == kTimeColumn) image.time_offset = offset;
    if (column == kChecksumColumn) image.checksum_offset = offset;
    if (column == kDigestColumn) image.digest_offset = offset;
    if (column == kDatasetOffsetColumn) image.dataset_offset = offset;
    if (column == kFileBytesColumn) image.file_bytes_offset = offset;
  }
  return image;
}

void CompleteIndex(const SavedCheckpoint& saved, IndexImage& draft) {
  std::vector<int64_t> file_bytes, offsets;
  for (const StoredFile& file : saved.files) file_bytes.push_back(file.bytes);
  for (const int32_t i : std::exchange(draft.order, {})) {
    offsets.push_back(saved.datasets[static_cast<size_t>(i)].offset);
  }
  PutNumbers(kFileBytesColumn, draft.file_bytes_offset, file_bytes, draft);
  PutNumbers(kDatasetOffsetColumn, draft.dataset_offset, offsets, draft);
  const uint32_t digest = draft.structure.value();
  std::memcpy(draft.bytes.data() + draft.digest_offset, &digest,
              sizeof(digest));
}

}  // namespace belay
