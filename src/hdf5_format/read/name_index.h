// The index of the links of a large group: a B-tree by the hash of the name.

#ifndef BELAY_HDF5_FORMAT_READ_NAME_INDEX_H_
#define BELAY_HDF5_FORMAT_READ_NAME_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"
#include "hdf5_format/read/bounded_file.h"

namespace belay::h5 {

// The bytes that say where in the heap a link lies.
inline constexpr int kHeapIdBytes = 7;

// Returns the places in the heap of all links whose names have this hash, in no
// order. `address` is that of the header of a B-tree of version 2. Local.
// Errors: DataLoss - damaged; Unimplemented - another kind of B-tree; those of
//   BoundedFile.
StatusOr<std::vector<std::string>> FindByHash(BoundedFile& file,
                                              int64_t address, uint32_t hash);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_READ_NAME_INDEX_H_
