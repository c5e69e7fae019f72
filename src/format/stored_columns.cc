#include "format/stored_columns.h"

namespace belay {
namespace {

// Appends `count` rows of a column. Returns false if it has fewer.
template <typename T>
bool Append(std::span<const T> rows, uint64_t begin, uint64_t count,
            std::vector<T>& to) {
  if (begin > rows.size() || count > rows.size() - begin) return false;
  to.insert(to.end(), rows.begin() + begin, rows.begin() + begin + count);
  return true;
}

// Selects some arrays from the columns of an index.
class ColumnSelection {
 public:
  explicit ColumnSelection(const StoredColumns& stored)
      : stored_(stored),
        dtypes_(Numbers<uint8_t>(".belay/arrays/dtype")),
        ndims_(Numbers<uint8_t>(".belay/arrays/ndim")),
        text_bytes_(Numbers<int64_t>(".belay/arrays/string_bytes")) {}

  // Returns false if the columns do not fit together.
  bool Take(const std::vector<std::string>& keys) {
    TakeOthers();
    return Find(keys) && TakeArrays() && TakeDatasets() && TakeTexts() &&
           TakeStructs();
  }

  IndexColumns& taken() { return taken_; }

 private:
  const StoredColumn& Column(std::string_view path) const {
    return FindColumn(stored_, path);
  }
  template <typename T>
  std::span<const T> Numbers(std::string_view path) const {
    return GetNumbers<T>(Column(path));
  }

  bool IsText(uint32_t array) const {
    return dtypes_[array] == static_cast<uint8_t>(DType::kString);
  }

  // Returns the number of blocks of an array of this shape; -1 if it overflows.
  int64_t Blocks(uint32_t array, std::span<const int64_t> shape) const {
    int64_t bytes =
        IsText(array) ? text_bytes_[array] : DTypeSize(DType{dtypes_[array]});
    for (const int64_t length : shape) {
      if (__builtin_mul_overflow(bytes, length, &bytes)) return -1;
    }
    return bytes < 0 ? -1 : NumBlocks(bytes);
  }

  // Takes the columns that are not about arrays.
  void TakeOthers() {
    const auto all = [&](std::string_view path, auto& column) {
      using T = typename std::decay_t<decltype(column)>::value_type;
      column = GetRows<T>(Column(path));
    };
    all(".belay/header/magic", taken_.magic);
    all(".belay/header/format", taken_.format);
    all(".belay/header/file_layout", taken_.file_layout);
    all(".belay/header/block_bytes", taken_.block_bytes);
    all(".belay/files/name", taken_.file_name);
    all(".belay/files/bytes", taken_.file_bytes);
    all(kStepColumn, taken_.step);
    all(kTimeColumn, taken_.time);
  }

  // Returns false if a key appears twice.
  bool Find(const std::vector<std::string>& keys) {
    const StoredColumn& column = Column(".belay/arrays/key");
    for (const std::string& key : keys) {
      int64_t first = 0, end = column.rows;
      while (first < end) {
        const int64_t middle = first + (end - first) / 2;
        if (GetText(column, middle) < key) {
          first = middle + 1;
        } else {
          end = middle;
        }
      }
      if (first == column.rows || GetText(column, first) != key) continue;
      arrays_.push_back(static_cast<uint32_t>(first));
      // Two arrays have this key: it is unclear which one is meant.
      if (first + 1 < column.rows && GetText(column, first + 1) <= key) {
        return false;
      }
    }
    std::sort(arrays_.begin(), arrays_.end());
    arrays_.erase(std::unique(arrays_.begin(), arrays_.end()), arrays_.end());
    return true;
  }

  bool TakeArrays() {
    const StoredColumn& keys = Column(".belay/arrays/key");
    const auto shapes = Numbers<int64_t>(".belay/arrays/shape");
    const auto checksums = Numbers<uint32_t>(".belay/checksums/crc32c");
    const size_t count = static_cast<size_t>(keys.rows);
    if (dtypes_.size() != count || ndims_.size() != count ||
        text_bytes_.size() != count || taken_.block_bytes.size() != 1) {
      return false;
    }
    uint64_t shape_at = 0, block_at = 0;
    auto wanted = arrays_.begin();
    for (uint32_t i = 0; i < count; ++i) {
      const size_t ndim = ndims_[i];
      if (!IsKnownDType(dtypes_[i]) || ndim > shapes.size() - shape_at) {
        return false;
      }
      const int64_t blocks = taken_.block_bytes[0] == 0
                                 ? 0
                                 : Blocks(i, shapes.subspan(shape_at, ndim));
      if (blocks < 0 ||
          static_cast<uint64_t>(blocks) > checksums.size() - block_at) {
        return false;
      }
      if (wanted != arrays_.end() && i == *wanted) {
        ++wanted;
        taken_.array_key.emplace_back(GetText(keys, i));
        taken_.array_dtype.push_back(dtypes_[i]);
        taken_.array_ndim.push_back(ndims_[i]);
        taken_.array_string_bytes.push_back(text_bytes_[i]);
        Append(shapes, shape_at, ndim, taken_.array_shape);
        Append(checksums, block_at, static_cast<uint64_t>(blocks),
               taken_.checksum);
      }
      shape_at += ndim;
      block_at += static_cast<uint64_t>(blocks);
    }
    return shape_at == shapes.size() && block_at == checksums.size();
  }

  bool TakeDatasets() {
    const auto arrays = Numbers<uint32_t>(".belay/datasets/array");
    const auto chunked = Numbers<uint8_t>(".belay/datasets/chunked");
    if (chunked.size() != arrays.size() ||
        !std::is_sorted(arrays.begin(), arrays.end()) ||
        (!arrays.empty() && arrays.back() >= dtypes_.size())) {
      return false;
    }
    const auto boxes = Numbers<int64_t>(".belay/datasets/box");
    const auto chunks = Numbers<int64_t>(".belay/datasets/chunk");
    uint64_t box_at = 0, chunk_at = 0;
    bool fits = true;
    for (uint32_t i = 0; i < arrays.size(); ++i) {
      const uint64_t axes = IsText(arrays[i]) ? 1 : ndims_[arrays[i]];
      const uint64_t lengths = chunked[i] == 0 ? 0 : axes;
      const auto array =
          std::lower_bound(arrays_.begin(), arrays_.end(), arrays[i]);
      if (array != arrays_.end() && *array == arrays[i]) {
        // The dataset's path in its file depends on all other keys.
        if (chunked[i] == kStoredFiltered) return false;
        datasets_.push_back(i);
        taken_.dataset_array.push_back(
            static_cast<uint32_t>(array - arrays_.begin()));
        taken_.dataset_chunked.push_back(chunked[i]);
        fits = fits && Append(boxes, box_at, 2 * axes, taken_.dataset_box) &&
               Append(chunks, chunk_at, lengths, taken_.dataset_chunk);
      }
      box_at += 2 * axes;
      chunk_at += lengths;
    }
    fits = fits && box_at == boxes.size() && chunk_at == chunks.size();
    // These have one row per dataset.
    const auto take = [&](std::string_view path, auto& to) {
      using T = typename std::decay_t<decltype(to)>::value_type;
      const auto rows = Numbers<T>(path);
      fits = fits && rows.size() == arrays.size();
      for (const uint32_t i : datasets_) {
        fits = fits && Append(rows, i, 1, to);
      }
    };
    take(".belay/datasets/file", taken_.dataset_file);
    take(kDatasetOffsetColumn, taken_.dataset_offset);
    take(".belay/datasets/group", taken_.dataset_group);
    take(".belay/datasets/task", taken_.dataset_task);
    return fits;
  }

  // Takes layouts, arguments and filters.
  bool TakeTexts() {
    bool fits = true;
    const auto take = [&](std::string_view path, std::string_view of,
                          const auto& rows, auto& to) {
      const StoredColumn& column = Column(path);
      if (column.rows == 0) return;  // omitted
      fits = fits && column.rows == Column(of).rows;
      for (const uint32_t row : rows) {
        if (fits) to.emplace_back(GetText(column, row));
      }
    };
    take(".belay/arrays/args", ".belay/arrays/key", arrays_, taken_.array_args);
    take(".belay/arrays/layout", ".belay/arrays/key", arrays_,
         taken_.array_layout);
    take(".belay/datasets/filters", ".belay/datasets/array", datasets_,
         taken_.dataset_filters);
    return fits;
  }

  bool TakeStructs() {
    const auto arrays = Numbers<uint32_t>(".belay/structs/array");
    const StoredColumn& fields = Column(".belay/structs/fields");
    if (static_cast<uint64_t>(fields.rows) != arrays.size()) return false;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const auto array =
          std::lower_bound(arrays_.begin(), arrays_.end(), arrays[i]);
      if (array == arrays_.end() || *array != arrays[i]) continue;
      taken_.structs.array.push_back(
          static_cast<uint32_t>(array - arrays_.begin()));
      taken_.structs.fields.emplace_back(
          GetText(fields, static_cast<int64_t>(i)));
    }
    return true;
  }

  const StoredColumns& stored_;
  IndexColumns taken_;
  std::vector<uint32_t> arrays_;    // selected, ascending
  std::vector<uint32_t> datasets_;  // of selected arrays, ascending
  std::span<const uint8_t> dtypes_, ndims_;
  std::span<const int64_t> text_bytes_;
};

}  // namespace

const StoredColumn& FindColumn(const StoredColumns& columns,
                               std::string_view path) {
  static const StoredColumn kNone;
  for (const StoredColumn& column : columns) {
    if (column.path == path) return column;
  }
  return kNone;
}

std::string_view GetText(const StoredColumn& column, int64_t row) {
  const std::string_view text(
      reinterpret_cast<const char*>(column.bytes.get()) + row * column.width,
      static_cast<size_t>(column.width));
  const size_t end = text.find_last_not_of('\0');
  return text.substr(0, end == text.npos ? 0 : end + 1);
}

StoredColumns ToStoredColumns(const IndexColumns& columns) {
  StoredColumns stored;
  ForEachColumn(columns, [&](const char* path, const auto& rows) {
    stored.push_back(ToStoredColumn(path, rows));
  });
  return stored;
}

IndexColumns ToIndexColumns(StoredColumns stored) {
  IndexColumns columns;
  auto next = stored.begin();
  ForEachColumn(columns, [&](const char*, auto& column) {
    using T = typename std::decay_t<decltype(column)>::value_type;
    column = GetRows<T>(*next);
    next++->bytes = nullptr;
  });
  return columns;
}

std::optional<IndexColumns> SelectArrays(const StoredColumns& stored,
                                         const std::vector<std::string>& keys) {
  ColumnSelection selection(stored);
  if (!selection.Take(keys)) return std::nullopt;
  return std::move(selection.taken());
}

}  // namespace belay
