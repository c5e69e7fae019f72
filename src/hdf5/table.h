// Columns: one-dimensional datasets, by which a table is stored in a file.
//
// In:  vectors of numbers or texts. Out: one contiguous dataset per column. A
// reader says how many rows it can take and trusts nothing in the file.

#ifndef BELAY_HDF5_TABLE_H_
#define BELAY_HDF5_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "hdf5/dataset.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// Writes a column of uint8_t, int32_t, uint32_t, int64_t or uint64_t with its
// parent groups. Local. Returns the offset of its first byte in the file, by
// which it can be patched once the file is closed; -1 if it has no rows.
// Errors: as CreateDataset and WriteHyperslab.
template <typename T>
StatusOr<int64_t> WriteColumn(const Handle& file, ObjectCache& cache,
                              const std::string& path,
                              std::span<const T> values);

// Reads a column of at most `max_rows` rows. Local.
// Errors: NotFound; DataLoss - another type or number of axes, more rows, or a
//   damaged file; Internal.
template <typename T>
StatusOr<std::vector<T>> ReadColumn(const Handle& file, std::string_view path,
                                    int64_t max_rows);

// Writes a column of UTF-8 texts, each stored in the length of the longest.
// Local.
// Errors: InvalidArgument - a text with a NUL in it; as CreateDataset and
//   WriteHyperslab.
Status WriteTextColumn(const Handle& file, ObjectCache& cache,
                       const std::string& path,
                       const std::vector<std::string>& texts);

// Reads a column of texts. Local.
// Errors: as ReadColumn.
StatusOr<std::vector<std::string>> ReadTextColumn(const Handle& file,
                                                  std::string_view path,
                                                  int64_t max_rows);

// Returns whether there is an object or link of that path. Local.
// Errors: DataLoss; Internal - a part of the path is no group.
StatusOr<bool> Exists(const Handle& file, std::string_view path);

}  // namespace belay::h5

#endif  // BELAY_HDF5_TABLE_H_
