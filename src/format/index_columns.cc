#include "format/index_columns.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_format.h"
#include "belay/values/save_args.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/stored_columns.h"
#include "plan/chunks.h"

namespace belay {
namespace {

// Returns true if the bytes of an array of this shape fit int64_t.
bool HasBytes(const Shape& shape, int64_t element_size) {
  const StatusOr<int64_t> elements = CheckedNumElements(shape);
  return elements.ok() && *elements <= INT64_MAX / element_size;
}

// Returns the bytes that a dataset occupies in its file, or -1 if they
// overflow.
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

// Returns true if a file of this length can hold the chunks of a dataset with
// filters: each takes at least a byte, at an unknown place.
bool CanHoldChunks(const StoredDataset& dataset, int64_t bytes,
                   int64_t element_size, int64_t file_bytes) {
  const int64_t chunk_elements = NumElements(dataset.chunk);
  return dataset.offset == -1 &&
         chunk_elements <= kMaxChunkBytes / element_size &&
         bytes / (chunk_elements * element_size) <= file_bytes;
}

// Returns the fewest bytes that a file has for a dataset with filters. zlib
// expands a byte to about a thousand at most; other filters may expand it to
// any number. Requires that CanHoldChunks holds.
int64_t LeastFilteredBytes(const StoredDataset& dataset, int64_t element_size) {
  const auto of_chunks = static_cast<int64_t>(std::min<absl::uint128>(
      absl::uint128(kLeastChunkBytes) *
          static_cast<uint64_t>(NumElements(ChunkGrid(dataset))),
      INT64_MAX));
  constexpr int kDeflate = 1, kShuffle = 2, kFletcher32 = 3;  // as in HDF5
  // Doubled, since a zlib stream also has a header and a chunk at least one
  // byte.
  constexpr int64_t kMaxInflated = 2 * 1040;
  int64_t ratio = 1;
  for (const Filter& filter : dataset.filters) {
    if (filter.id == kDeflate) ratio = kMaxInflated;
    const bool is_known = filter.id == kDeflate || filter.id == kShuffle ||
                          filter.id == kFletcher32;
    if (!is_known) return of_chunks;
  }
  return std::max(of_chunks,
                  NumElements(dataset.box.shape) * element_size / ratio);
}

// Returns the datasets that have bytes at known places, ascending by file and
// place.
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

// Checks that no two files have the same name, and that no two datasets with
// known places share a byte: each stored byte must be counted only once.
// Requires datasets for which IsInFile holds.
Status CheckBytesCountOnce(const SavedCheckpoint& saved,
                           const std::string& path) {
  absl::flat_hash_set<std::string_view> names;
  for (const StoredFile& file : saved.files) {
    if (names.insert(file.name).second) continue;
    return absl::DataLossError(absl::StrFormat(
        "read \"%s\": file \"%s\" is listed twice", path, file.name));
  }
  const StoredDataset* last = nullptr;
  int64_t end = 0;  // of `last`
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

// Returns true if a file of this length has room for a dataset at its place or,
// with filters, for its chunks anywhere.
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

// Checks that the files can hold what the datasets with filters claim, before
// memory is allocated for it. Several datasets may claim the same bytes; only
// the files can show that (CheckStoredChunks).
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

constexpr int kMaxNdim = 32;  // HDF5's limit

uint8_t ChooseStorage(const StoredDataset& dataset) {
  if (dataset.chunk.empty()) return kStoredContiguous;
  return dataset.filters.empty() ? kStoredChunks : kStoredFiltered;
}

// Takes the rows of a column one by one, and records if there are too few.
template <typename T>
class Cursor {
 public:
  Cursor(const std::vector<T>& column, const char* name)
      : column_(column), name_(name) {}

  T Next() {
    if (position_ == column_.size()) {
      overrun_ = true;
      return T{};
    }
    return column_[position_++];
  }
  // For a column that may be omitted.
  T NextIfAny() { return column_.empty() ? T{} : Next(); }
  Shape NextShape(size_t ndim) {
    Shape shape(ndim);
    for (int64_t& length : shape) length = static_cast<int64_t>(Next());
    return shape;
  }
  // Returns an error unless exactly all rows were taken.
  Status Done(const std::string& path) const {
    if (!overrun_ && position_ == column_.size()) return absl::OkStatus();
    return absl::DataLossError(absl::StrFormat(
        "read \"%s\": column \"%s\" has the wrong length (found %d rows%s)",
        path, name_, column_.size(), overrun_ ? ", too few" : ", too many"));
  }

 private:
  const std::vector<T>& column_;
  const char* name_;
  size_t position_ = 0;
  bool overrun_ = false;
};

// Returns the first error of Done.
template <typename... Cursors>
Status AllDone(const std::string& path, const Cursors&... cursors) {
  Status status;
  (status.Update(cursors.Done(path)), ...);
  return status;
}

Status Bad(const std::string& path, std::string_view what, size_t row) {
  return absl::DataLossError(absl::StrFormat(
      "read \"%s\": %s of row %d is out of range", path, what, row));
}

// Checks that no string has a NUL byte: the system would end a file name there,
// so that two names would mean the same file.
Status CheckTexts(const IndexColumns& columns, const std::string& path) {
  Status status;
  ForEachColumn(columns, [&](std::string_view name, const auto& column) {
    if constexpr (std::is_convertible_v<decltype(column),
                                        std::vector<std::string>>) {
      for (size_t row = 0; row < column.size(); ++row) {
        if (column[row].find('\0') == std::string::npos) continue;
        name.remove_prefix(std::string_view(".belay/").size());
        status.Update(Bad(path, name, row));
        return;
      }
    }
  });
  return status;
}

Status WrongChecksums(const std::string& path, std::string_view need,
                      size_t found) {
  return absl::DataLossError(absl::StrFormat(
      "read \"%s\": column \"checksums/crc32c\" has the wrong length (need %s, "
      "found %d)",
      path, AbslView(need), found));
}

// Takes the keys. Counts in `blocks` the blocks with checksums, and stops if
// there are fewer checksums: in a hostile file, the sum could overflow.
Status GetArrays(IndexColumns& in, const std::string& path,
                 SavedCheckpoint& saved, uint64_t& blocks) {
  Cursor dtype(in.array_dtype, "arrays/dtype");
  Cursor ndim(in.array_ndim, "arrays/ndim");
  Cursor shape(in.array_shape, "arrays/shape");
  saved.arrays.reserve(in.array_key.size());
  Cursor string_bytes(in.array_string_bytes, "arrays/string_bytes");
  for (size_t i = 0; i < in.array_key.size(); ++i) {
    const uint8_t code = dtype.Next();
    if (!IsKnownDType(code)) return Bad(path, "arrays/dtype", i);
    StoredArray& array = saved.arrays.emplace_back();
    array.key = std::move(in.array_key[i]);
    array.dtype = DType{code};
    const int axes = ndim.Next();
    const bool is_text = array.dtype == DType::kString;
    if (axes > (is_text ? 0 : kMaxNdim)) return Bad(path, "arrays/ndim", i);
    array.shape = shape.NextShape(axes);
    if (!HasBytes(array.shape, 16)) return Bad(path, "arrays/shape", i);
    array.string_bytes = string_bytes.Next();
    if (array.string_bytes < 0 || (!is_text && array.string_bytes > 0)) {
      return Bad(path, "arrays/string_bytes", i);
    }
    if (array.key.empty() || (i > 0 && array.key <= saved.arrays[i - 1].key)) {
      return Bad(path, "arrays/key", i);
    }
    if (in.block_bytes[0] == 0) continue;
    blocks += static_cast<uint64_t>(NumBlocks(ArrayBytes(array)));
    if (blocks > in.checksum.size()) {
      return WrongChecksums(path, Cat(blocks, " rows or more"),
                            in.checksum.size());
    }
  }
  return AllDone(path, dtype, ndim, shape, string_bytes);
}

Status GetFiles(const IndexColumns& in, const std::string& path,
                SavedCheckpoint& saved) {
  Cursor bytes(in.file_bytes, "files/bytes");
  for (size_t i = 0; i < in.file_name.size(); ++i) {
    saved.files.push_back({.name = in.file_name[i], .bytes = bytes.Next()});
    const std::string& name = in.file_name[i];
    if (name.empty() || name.find('/') != std::string::npos || name == "." ||
        name == "..") {
      return Bad(path, "files/name", i);
    }
    if (saved.files.back().bytes < 0) return Bad(path, "files/bytes", i);
  }
  return bytes.Done(path);
}

bool IsChunk(const Shape& chunk, const Shape& shape) {
  return std::equal(
      chunk.begin(), chunk.end(), shape.begin(),
      [](int64_t part, int64_t whole) { return 1 <= part && part <= whole; });
}

Status GetDatasets(const IndexColumns& in, const std::string& path,
                   SavedCheckpoint& saved) {
  Cursor file(in.dataset_file, "datasets/file");
  Cursor offset(in.dataset_offset, "datasets/offset");
  Cursor chunked(in.dataset_chunked, "datasets/chunked");
  Cursor box(in.dataset_box, "datasets/box");
  Cursor chunk(in.dataset_chunk, "datasets/chunk");
  ChunkCount count(Cat("read \"", path, "\""));
  saved.datasets.reserve(in.dataset_array.size());
  for (size_t i = 0; i < in.dataset_array.size(); ++i) {
    StoredDataset& dataset = saved.datasets.emplace_back();
    dataset.array = static_cast<int32_t>(in.dataset_array[i]);
    dataset.file = static_cast<int32_t>(file.Next());
    if (in.dataset_array[i] >= saved.arrays.size() ||
        (i > 0 && in.dataset_array[i] < in.dataset_array[i - 1])) {
      return Bad(path, "datasets/array", i);
    }
    if (static_cast<uint32_t>(dataset.file) >= saved.files.size()) {
      return Bad(path, "datasets/file", i);
    }
    const StoredArray& array = saved.arrays[dataset.array];
    const Shape shape = IoShape(array);
    dataset.box.offset = box.NextShape(shape.size());
    dataset.box.shape = box.NextShape(shape.size());
    if (!CheckBox(dataset.box, shape).ok()) return Bad(path, "datasets/box", i);
    const uint8_t is_chunked = chunked.Next();
    // Strings and scalars have no axes to cut.
    if (is_chunked > kStoredFiltered ||
        (is_chunked > 0 && array.shape.empty())) {
      return Bad(path, "datasets/chunked", i);
    }
    if (is_chunked > 0) dataset.chunk = chunk.NextShape(shape.size());
    if (!IsChunk(dataset.chunk, dataset.box.shape)) {
      return Bad(path, "datasets/chunk", i);
    }
    dataset.offset = offset.Next();
    if (!IsInFile(dataset, IoElementSize(array.dtype),
                  saved.files[dataset.file].bytes,
                  is_chunked == kStoredFiltered)) {
      return Bad(path, "datasets/offset", i);
    }
    BELAY_RETURN_IF_ERROR(count.Add(array.key, dataset.box.shape, dataset.chunk,
                                    IoElementSize(array.dtype)));
  }
  return AllDone(path, file, offset, chunked, box, chunk);
}

// Gets the groups and tasks of the datasets.
Status GetGroups(const IndexColumns& in, const std::string& path,
                 SavedCheckpoint& saved) {
  Cursor group(in.dataset_group, "datasets/group");
  Cursor task(in.dataset_task, "datasets/task");
  for (size_t i = 0; i < saved.datasets.size(); ++i) {
    StoredDataset& dataset = saved.datasets[i];
    dataset.group = static_cast<int32_t>(group.Next());
    if (dataset.group < 0) return Bad(path, "datasets/group", i);
    const int64_t number = task.Next();
    if (number < -1 || number > INT32_MAX) {
      return Bad(path, "datasets/task", i);
    }
    dataset.task = static_cast<int32_t>(number);
  }
  return AllDone(path, group, task);
}

// Takes the checksums of `blocks` blocks.
Status GetChecksums(IndexColumns& in, const std::string& path, uint64_t blocks,
                    SavedCheckpoint& saved) {
  if (in.checksum.size() != blocks) {
    return WrongChecksums(path, Cat(blocks, " rows"), in.checksum.size());
  }
  saved.has_checksums = in.block_bytes[0] != 0;
  saved.checksums = std::move(in.checksum);
  return absl::OkStatus();
}

Status CheckDamage(const std::string& path, const std::string& damage) {
  if (damage.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("read \"%s\": %s", path, damage));
}

// Gets objects, values of more than one array, rows of ranks, and structs.
// Moves the first two out of `in`.
Status GetTables(IndexColumns& in, const std::string& path,
                 SavedCheckpoint& saved) {
  BELAY_RETURN_IF_ERROR(
      CheckDamage(path, FindDamage(in.graph, saved.arrays.size())));
  saved.graph = std::move(in.graph);
  BELAY_RETURN_IF_ERROR(
      CheckDamage(path, FindDamage(in.values, saved.arrays.size(),
                                   saved.graph.node_parent.size())));
  saved.values = std::move(in.values);
  std::vector<Shape> shapes;
  if (!in.rows.array.empty()) {
    for (const StoredArray& array : saved.arrays) shapes.push_back(array.shape);
  }
  BELAY_RETURN_IF_ERROR(
      CheckDamage(path, FromRowColumns(in.rows, shapes, saved.rows)));
  return CheckDamage(path, FromStructColumns(in.structs, saved));
}

// Adds the columns of layouts, arguments and filters.
void PutForms(const SavedCheckpoint& saved, IndexColumns& out) {
  for (const StoredArray& array : saved.arrays) {
    out.array_args.push_back(array.args);
    out.array_layout.push_back(array.layout);
  }
  for (const StoredDataset& dataset : saved.datasets) {
    out.dataset_filters.push_back(FiltersText(dataset.filters));
  }
  for (std::vector<std::string>* column :
       {&out.array_args, &out.array_layout, &out.dataset_filters}) {
    const bool is_blank =
        std::all_of(column->begin(), column->end(),
                    [](const std::string& text) { return text.empty(); });
    if (is_blank) column->clear();
  }
}

Status GetForms(const IndexColumns& in, const std::string& path,
                SavedCheckpoint& saved) {
  Cursor args(in.array_args, "arrays/args");
  Cursor layout(in.array_layout, "arrays/layout");
  for (StoredArray& array : saved.arrays) {
    array.args = args.NextIfAny();
    array.layout = layout.NextIfAny();
  }
  BELAY_RETURN_IF_ERROR(AllDone(path, args, layout));
  Cursor text(in.dataset_filters, "datasets/filters");
  for (size_t i = 0; i < saved.datasets.size(); ++i) {
    const StatusOr<std::vector<Filter>> filters =
        ParseFilters(text.NextIfAny());
    const bool is_filtered = in.dataset_chunked[i] == kStoredFiltered;
    if (!filters.ok() || filters->empty() == is_filtered) {
      return Bad(path, "datasets/filters", i);
    }
    saved.datasets[i].filters = *filters;
  }
  return text.Done(path);
}

}  // namespace

IndexColumns ToColumns(const SavedCheckpoint& saved) {
  IndexColumns out;
  out.magic = {kIndexMagic};
  out.format = {kFormatMajor, kFormatMinor};
  out.file_layout = {static_cast<uint8_t>(saved.file_layout)};
  out.block_bytes = {saved.has_checksums ? kBlockBytes : 0};
  const auto append = [](std::vector<int64_t>& column, const Shape& shape) {
    column.insert(column.end(), shape.begin(), shape.end());
  };
  for (const StoredArray& array : saved.arrays) {
    out.array_key.push_back(array.key);
    out.array_dtype.push_back(static_cast<uint8_t>(array.dtype));
    out.array_ndim.push_back(static_cast<uint8_t>(array.shape.size()));
    append(out.array_shape, array.shape);
    out.array_string_bytes.push_back(array.string_bytes);
  }
  for (const StoredFile& file : saved.files) {
    out.file_name.push_back(file.name);
    out.file_bytes.push_back(file.bytes);
  }
  for (const StoredDataset& dataset : saved.datasets) {
    out.dataset_array.push_back(dataset.array);
    out.dataset_file.push_back(dataset.file);
    out.dataset_offset.push_back(dataset.offset);
    out.dataset_chunked.push_back(ChooseStorage(dataset));
    append(out.dataset_box, dataset.box.offset);
    append(out.dataset_box, dataset.box.shape);
    append(out.dataset_chunk, dataset.chunk);
    out.dataset_group.push_back(static_cast<uint32_t>(dataset.group));
    out.dataset_task.push_back(dataset.task);
  }
  PutForms(saved, out);
  out.step = {saved.step};
  out.time = {saved.time};
  out.checksum = saved.checksums;
  out.graph = saved.graph;
  out.values = saved.values;
  out.rows = ToRowColumns(saved.rows);
  out.structs = ToStructColumns(saved.arrays);
  return out;
}

StatusOr<SavedCheckpoint> FromColumns(IndexColumns columns,
                                      const std::string& path) {
  BELAY_RETURN_IF_ERROR(CheckTexts(columns, path));
  SavedCheckpoint saved;
  if (columns.step.size() != 1 || columns.step[0] < 0) {
    return Bad(path, "step", 0);
  }
  saved.step = columns.step[0];
  if (columns.time.size() != 1 || columns.time[0] < 0 ||
      columns.time[0] > kMaxTime) {
    return Bad(path, "header/time", 0);
  }
  saved.time = columns.time[0];
  if (columns.format.size() != 2) return Bad(path, "header/format", 0);
  saved.format_major = static_cast<int>(columns.format[0]);
  saved.format_minor = static_cast<int>(columns.format[1]);
  if (columns.file_layout.size() != 1 ||
      columns.file_layout[0] > static_cast<uint8_t>(FileLayout::kPerTask)) {
    return Bad(path, "header/file_layout", 0);
  }
  saved.file_layout = FileLayout{columns.file_layout[0]};
  if (columns.block_bytes.size() != 1 ||
      (columns.block_bytes[0] != 0 && columns.block_bytes[0] != kBlockBytes)) {
    return Bad(path, "header/block_bytes", 0);
  }
  uint64_t blocks = 0;
  BELAY_RETURN_IF_ERROR(GetArrays(columns, path, saved, blocks));
  BELAY_RETURN_IF_ERROR(GetFiles(columns, path, saved));
  BELAY_RETURN_IF_ERROR(GetDatasets(columns, path, saved));
  BELAY_RETURN_IF_ERROR(GetGroups(columns, path, saved));
  BELAY_RETURN_IF_ERROR(GetChecksums(columns, path, blocks, saved));
  BELAY_RETURN_IF_ERROR(GetTables(columns, path, saved));
  BELAY_RETURN_IF_ERROR(GetForms(columns, path, saved));
  BELAY_RETURN_IF_ERROR(CheckFilteredFit(saved, path));
  BELAY_RETURN_IF_ERROR(CheckDamage(path, FindTilingDamage(saved)));
  BELAY_RETURN_IF_ERROR(CheckBytesCountOnce(saved, path));
  return saved;
}

// The digest of the index: what it covers, and in which order.

void ColumnCrc::AddBytes(const void* data, size_t bytes) {
  state_ = CrcRegister(state_, data, bytes);
  bytes_ += bytes;
}

void ColumnCrc::Add(const StoredColumn& column) {
  const auto rows = static_cast<uint64_t>(column.rows);
  AddBytes(&rows, sizeof(rows));
  if (column.dtype != DType::kString) {
    return AddBytes(column.bytes.get(), GetBytes(column).size());
  }
  // Concatenates short strings first, since the sum is faster over long ones.
  constexpr size_t kPartBytes = 16 << 10;
  std::string part;
  for (int64_t row = 0; row < column.rows; ++row) {
    const std::string_view text = GetText(column, row);
    const uint64_t bytes = text.size();
    if (part.size() + text.size() > kPartBytes) {
      AddBytes(part.data(), part.size());
      part.clear();
    }
    part.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    part.append(text);
  }
  AddBytes(part.data(), part.size());
}

bool IsValueColumn(std::string_view path) {
  return path == kStepColumn || path == kTimeColumn || path == kChecksumColumn;
}

IndexDigest ComputeDigest(const StoredColumns& columns) {
  ColumnCrc structure, values;
  for (const StoredColumn& column : columns) {
    (IsValueColumn(column.path) ? values : structure).Add(column);
  }
  return {.structure = structure.value(), .values = values.value()};
}

uint32_t ComputeValueDigest(int64_t step, int64_t time,
                            const std::vector<uint32_t>& checksums) {
  ColumnCrc crc;
  crc.Add(ToStoredColumn(kStepColumn, std::vector<int64_t>{step}));
  crc.Add(ToStoredColumn(kTimeColumn, std::vector<int64_t>{time}));
  crc.Add(ToStoredColumn(kChecksumColumn, checksums));
  return crc.value();
}

}  // namespace belay
