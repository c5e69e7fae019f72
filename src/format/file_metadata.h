// All metadata of a file, as bytes, made without HDF5.
//
// HDF5 takes about 40 us for a dataset in a group of its own, which all ranks
// wait for; putting the same together from the File Format Specification takes
// about 5.

#ifndef BELAY_FORMAT_FILE_METADATA_H_
#define BELAY_FORMAT_FILE_METADATA_H_

#include <span>

#include "format/element_type.h"

namespace belay::h5 {

// The objects of a file, without the groups above them. Borrowed.
struct FileObjects {
  std::span<const DatasetSpec> datasets = {};
  std::span<const ExternalLink> links = {};
};

// The first bytes of a file, up to its data, and where everything lies.
struct FileMetadata {
  std::string bytes;
  std::vector<int64_t> offsets;  // by dataset; -1 for those without bytes
  int64_t file_bytes = 0;
};

// Returns the metadata of a file, in which the bytes of datasets follow each
// other in their order. Returns nothing for what only HDF5 can make, or
// refuses: filters, two objects with one name, a path that is no sequence of
// names, a link of more than 65535 bytes, a group with links of 2 GiB.
// Errors: Internal.
StatusOr<std::optional<FileMetadata>> EncodeFileMetadata(
    const FileObjects& objects);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_FILE_METADATA_H_
