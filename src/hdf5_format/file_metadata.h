// All metadata of a file of datasets, as bytes, made without HDF5 files.
//
// HDF5 takes about 40 us for a dataset in a group of its own, which all ranks
// wait for; putting the same together from the File Format Specification takes
// about 5.

#ifndef BELAY_HDF5_FORMAT_FILE_METADATA_H_
#define BELAY_HDF5_FORMAT_FILE_METADATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/status.h"
#include "hdf5_format/dataset_spec.h"

namespace belay::h5 {

// The first bytes of a file, up to its data, and where everything lies.
struct FileMetadata {
  std::string bytes;
  std::vector<int64_t> offsets;  // by dataset; -1 for those without bytes
  int64_t file_bytes = 0;
};

// Returns the metadata of a file with these datasets and the groups above them,
// whose bytes follow each other in that order. Local. Returns nothing for what
// only HDF5 can make, or refuses: filters, two objects with one name, a path
// that is no sequence of names, a name of more than 1024 bytes, a group of more
// than 65000 links.
// Errors: Internal.
StatusOr<std::optional<FileMetadata>> EncodeFileMetadata(
    const std::vector<DatasetSpec>& datasets);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_FILE_METADATA_H_
