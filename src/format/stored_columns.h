// The columns of an index as stored in the file, and their digest.
//
// Converts IndexColumns to stored bytes and back. Some arrays can also be
// selected from the stored bytes without converting the rest: finding a key and
// the boxes of one array among 100,000 takes less time than allocating memory
// for that many keys.

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
  int64_t width = 0;  // bytes of a row; for strings, of the longest
  std::unique_ptr<std::byte[]> bytes;
};

// All columns of an index, in the order of ForEachColumn. A file omits columns
// without rows.
using StoredColumns = std::vector<StoredColumn>;

// Returns the column with this path, or one without rows if there is none.
const StoredColumn& FindColumn(const StoredColumns& columns,
                               std::string_view path);

// Returns the string in a row, without its NUL padding.
std::string_view GetText(const StoredColumn& column, int64_t row);

// Returns all bytes of a column.
inline std::string_view GetBytes(const StoredColumn& column) {
  return {reinterpret_cast<const char*>(column.bytes.get()),
          static_cast<size_t>(column.rows * column.width)};
}

// Returns the numbers of a column of Ts.
template <typename T>
std::span<const T> GetNumbers(const StoredColumn& column) {
  return {reinterpret_cast<const T*>(column.bytes.get()),
          static_cast<size_t>(column.rows)};
}

// Returns all rows of a column of Ts or of strings.
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

// The CRC32C of the contents of columns, one after the other.
class ColumnCrc {
 public:
  void Add(const StoredColumn& column);
  uint32_t value() const { return StandardCrc(state_, bytes_); }

 private:
  void AddBytes(const void* data, size_t bytes);

  uint32_t state_ = 0;
  uint64_t bytes_ = 0;
};

// Returns true if the column is in the second part of the digest.
bool IsValueColumn(std::string_view path);
// Returns the digest of all columns.
IndexDigest ComputeDigest(const StoredColumns& columns);
// Returns the part that covers step, time and checksums.
uint32_t ComputeValueDigest(int64_t step, int64_t time,
                            const std::vector<uint32_t>& checksums);

// Makes a column of these rows. Pads strings to the length of the longest.
template <typename T>
StoredColumn ToStoredColumn(std::string path, const std::vector<T>& rows);

// Converts all columns.
StoredColumns ToStoredColumns(const IndexColumns& columns);

// The inverse of ToStoredColumns.
IndexColumns ToIndexColumns(StoredColumns stored);

// Returns the columns of an index that has only those arrays of `keys` that
// exist, and no objects or values. Checks that the columns of arrays and
// datasets have the right lengths, but nothing else of other arrays. Returns
// nothing if the lengths are wrong, if a key appears twice, or if one of these
// arrays has chunks with filters: the paths of its datasets depend on all keys.
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
