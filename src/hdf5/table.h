// Columns: one-dimensional datasets, by which a table is stored in a file.
//
// In:  vectors of numbers or texts. Out: one contiguous dataset per column.
// hdf5_format/file_reader.h reads them.

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

// Writes a column of UTF-8 texts, each stored in the length of the longest.
// Local.
// Errors: InvalidArgument - a text with a NUL in it; as CreateDataset and
//   WriteHyperslab.
Status WriteTextColumn(const Handle& file, ObjectCache& cache,
                       const std::string& path,
                       const std::vector<std::string>& texts);

}  // namespace belay::h5

#endif  // BELAY_HDF5_TABLE_H_
