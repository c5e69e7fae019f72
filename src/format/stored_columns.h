// The columns of an index as they lie in the file, and their digest.
//
// In:  IndexColumns, or the bytes of a file. Out: the other of the two.
// From these bytes a few arrays are taken without making anything of all
// others: a key and the boxes of one array are found among those of 100,000 in
// less time than memory for as many keys takes.

#ifndef BELAY_FORMAT_STORED_COLUMNS_H_
#define BELAY_FORMAT_STORED_COLUMNS_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "belay/arrays/dtype.h"
#include "core/checksum.h"
#include "core/flat_buffer.h"
#include "format/index_columns.h"

namespace belay {

struct StoredColumn {
  std::string path;  // inside the index
  DType dtype = DType::kU8;
  int64_t rows = 0;
  int64_t width = 0;  // bytes of a row; of texts those of the longest
  std::unique_ptr<std::byte[]> bytes;
};

// All of an index, in the order of ForEachColumn. A file leaves out those
// without rows.
using StoredColumns = std::vector<StoredColumn>;

// The column with this path; one without rows if there is none.
const StoredColumn& FindColumn(const StoredColumns& columns,
                               std::string_view path);

// The text of a row, without the NULs that fill it up.
std::string_view GetText(const StoredColumn& column, int64_t row);

// All bytes of a column.
inline std::string_view GetBytes(const StoredColumn& column) {
  return {reinterpret_cast<const char*>(column.bytes.get()),
          static_cast<size_t>(column.rows * column.width)};
}

// The numbers of a column of Ts.
template <typename T>
std::span<const T> GetNumbers(const StoredColumn& column) {
  return {reinterpret_cast<const T*>(column.bytes.get()),
          static_cast<size_t>(column.rows)};
}

// All rows of a column of Ts, or of texts.
template <typename T>
std::vector<T> GetRows(const StoredColumn& column) {
  std::vector<T> rows;
  if constexpr (std::is_same_v<T, std::string>) {
    rows.reserve(static_cast<size_t>(column.rows));
    for (int64_t row = 0; row < column.rows; ++row) {
      rows.emplace_back(GetText(column, row));
    }
  } else {
    const std::span<const T> numbers = GetNumbers<T>(column);
    rows.assign(numbers.begin(), numbers.end());
  }
  return rows;
}

struct IndexDigest {
  uint32_t structure = 0;
  uint32_t values = 0;

  friend bool operator==(const IndexDigest&, const IndexDigest&) = default;
};

// The CRC32C of the content of columns, one after the other.
class ColumnCrc {
 public:
  void Add(const StoredColumn& column);
  uint32_t value() const { return StandardCrc(state_, bytes_); }

 private:
  void AddBytes(const void* data, size_t bytes);

  uint32_t state_ = 0;
  uint64_t bytes_ = 0;
};

// Returns whether the column is in the second part of the digest.
bool IsValueColumn(std::string_view path);
// Returns the digest of all columns.
IndexDigest ComputeDigest(const StoredColumns& columns);
// The part that covers step, time and checksums.
uint32_t ComputeValueDigest(int64_t step, int64_t time,
                            const std::vector<uint32_t>& checksums);

// A column of such rows; each text takes as much as the longest.
template <typename T>
StoredColumn ToStoredColumn(std::string path, const std::vector<T>& rows);

// Converts all columns.
StoredColumns ToStoredColumns(const IndexColumns& columns);

// Converts them back.
IndexColumns ToIndexColumns(StoredColumns stored);

// The columns of an index that has no arrays but those of `keys` that are
// there, and neither objects nor values. Whether the columns of arrays
// and datasets have the right lengths is checked; of what other arrays have, no
// more than that. Nothing: they do not, or a key is there twice, or one of
// these arrays has chunks with filters, whose names in their file follow from
// all keys.
std::optional<IndexColumns> SelectArrays(const StoredColumns& stored,
                                         const std::vector<std::string>& keys);

template <typename T>
StoredColumn ToStoredColumn(std::string path, const std::vector<T>& rows) {
  StoredColumn column{.path = std::move(path), .rows = std::ssize(rows)};
  if constexpr (std::is_same_v<T, std::string>) {
    size_t width = 1;
    for (const std::string& text : rows) width = std::max(width, text.size());
    column.dtype = DType::kString;
    column.width = static_cast<int64_t>(width);
    column.bytes = NewBytes(column.rows * column.width);
    std::byte* to = column.bytes.get();
    for (const std::string& text : rows) {
      std::memcpy(to, text.data(), text.size());
      std::memset(to + text.size(), 0, width - text.size());
      to += width;
    }
  } else {
    column.dtype = DTypeOf<T>();
    column.width = sizeof(T);
    column.bytes = NewBytes(column.rows * column.width);
    if (!rows.empty()) {
      std::memcpy(column.bytes.get(), rows.data(), rows.size() * sizeof(T));
    }
  }
  return column;
}

}  // namespace belay

#endif  // BELAY_FORMAT_STORED_COLUMNS_H_
