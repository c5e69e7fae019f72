// The index as columns: the contents of belay's own tables in index.h5.
//
// Converts a SavedCheckpoint to plain columns, and columns back to a
// SavedCheckpoint after checking every number. docs/format.md describes each
// column.

#ifndef BELAY_FORMAT_INDEX_COLUMNS_H_
#define BELAY_FORMAT_INDEX_COLUMNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"
#include "plan/plan.h"
#include "plan/stored_arrays.h"

namespace belay {

// Readers reject a newer major version. A newer minor version only adds.
inline constexpr uint32_t kFormatMajor = 1;
inline constexpr uint32_t kFormatMinor = 0;
inline constexpr char kIndexMagic[] = "belay checkpoint";
// The largest time: 9999-12-31 23:59:59, the last second of four-digit years.
inline constexpr int64_t kMaxTime = 253402300799;

// The fewest bytes that a file has for a chunk with filters: its address, its
// length, a mask of filters, and one byte.
inline constexpr int64_t kLeastChunkBytes = 8 + 1 + 4 + 1;

// The values of the column ".belay/datasets/chunked".
inline constexpr uint8_t kStoredContiguous = 0;
inline constexpr uint8_t kStoredChunks = 1;
inline constexpr uint8_t kStoredFiltered = 2;

// The columns whose content differs between saves with the same plan.
inline constexpr char kStepColumn[] = ".belay/step";
inline constexpr char kTimeColumn[] = ".belay/header/time";
inline constexpr char kChecksumColumn[] = ".belay/checksums/crc32c";
// Two CRC32C: of all columns except these three, and of these three.
inline constexpr char kDigestColumn[] = ".belay/digest";
// Columns that are known only once the data files exist.
inline constexpr char kDatasetOffsetColumn[] = ".belay/datasets/offset";
inline constexpr char kFileBytesColumn[] = ".belay/files/bytes";

struct IndexColumns {
  // Header: one row each, except two for `format`.
  std::vector<std::string> magic;
  std::vector<uint32_t> format;  // major, minor
  std::vector<uint8_t> file_layout;
  std::vector<int64_t> block_bytes;  // 0: no checksums
  // One row per array, ascending by key.
  std::vector<std::string> array_key;
  std::vector<uint8_t> array_dtype;
  std::vector<uint8_t> array_ndim;
  std::vector<int64_t> array_shape;  // ndim rows per array
  std::vector<int64_t> array_string_bytes;
  // One row per file.
  std::vector<std::string> file_name;
  std::vector<int64_t> file_bytes;
  // One row per dataset, ascending by array.
  std::vector<uint32_t> dataset_array;
  std::vector<uint32_t> dataset_file;
  std::vector<int64_t> dataset_offset;
  std::vector<uint8_t> dataset_chunked;
  std::vector<int64_t> dataset_box;    // io ndim offsets, then io ndim lengths
  std::vector<int64_t> dataset_chunk;  // io ndim rows per chunked dataset
  std::vector<uint32_t> dataset_group;
  std::vector<int64_t> dataset_task;
  // One row per array or dataset, or none if all strings are empty.
  std::vector<std::string> array_args;
  std::vector<std::string> array_layout;
  std::vector<std::string> dataset_filters;
  // These change from save to save.
  std::vector<int64_t> step;
  std::vector<int64_t> time;
  std::vector<uint32_t> checksum;  // per block of every array, in order
  StoredGraph graph;
  StoredValues values;
  RowColumns rows;
  StructColumns structs;
};

// Calls fn(path inside the index, column) for every column, in format order.
// This is the only list of names. The columns whose content is known last come
// last. `Columns` is IndexColumns or const IndexColumns.
template <typename Columns, typename Fn>
void ForEachColumn(Columns& columns, Fn&& fn) {
  fn(".belay/header/magic", columns.magic);
  fn(".belay/header/format", columns.format);
  fn(".belay/header/file_layout", columns.file_layout);
  fn(".belay/header/block_bytes", columns.block_bytes);
  fn(".belay/arrays/key", columns.array_key);
  fn(".belay/arrays/dtype", columns.array_dtype);
  fn(".belay/arrays/ndim", columns.array_ndim);
  fn(".belay/arrays/shape", columns.array_shape);
  fn(".belay/arrays/string_bytes", columns.array_string_bytes);
  fn(".belay/arrays/args", columns.array_args);
  fn(".belay/arrays/layout", columns.array_layout);
  fn(".belay/files/name", columns.file_name);
  fn(".belay/datasets/array", columns.dataset_array);
  fn(".belay/datasets/file", columns.dataset_file);
  fn(".belay/datasets/chunked", columns.dataset_chunked);
  fn(".belay/datasets/box", columns.dataset_box);
  fn(".belay/datasets/chunk", columns.dataset_chunk);
  fn(".belay/datasets/group", columns.dataset_group);
  fn(".belay/datasets/task", columns.dataset_task);
  fn(".belay/datasets/filters", columns.dataset_filters);
  ForEachGraphColumn(columns.graph, fn);
  ForEachValueColumn(columns.values, fn);
  ForEachRowColumn(columns.rows, fn);
  ForEachStructColumn(columns.structs, fn);
  fn(kFileBytesColumn, columns.file_bytes);
  fn(kDatasetOffsetColumn, columns.dataset_offset);
  fn(kStepColumn, columns.step);
  fn(kTimeColumn, columns.time);
  fn(kChecksumColumn, columns.checksum);
}

IndexColumns ToColumns(const SavedCheckpoint& saved);

// Checks and converts columns that were read from a file named `path`.
// Errors: DataLoss - a column is too short or too long, or a number is outside
//   its range; names the column. Or the datasets of an array do not tile it;
//   names the key.
StatusOr<SavedCheckpoint> FromColumns(IndexColumns columns,
                                      const std::string& path);

}  // namespace belay

#endif  // BELAY_FORMAT_INDEX_COLUMNS_H_
