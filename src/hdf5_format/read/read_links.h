// Finds what a group has under a name.

#ifndef BELAY_HDF5_FORMAT_READ_READ_LINKS_H_
#define BELAY_HDF5_FORMAT_READ_READ_LINKS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "hdf5_format/read/bounded_file.h"
#include "hdf5_format/read/read_header.h"

namespace belay::h5 {

// Returns the address of the object that a link of a group leads to, or nothing
// if there is no link of that name. `messages` are those of the group. Takes as
// long as a search does, however many links there are. Local.
// Errors: DataLoss - damaged, or no group; Unimplemented - a soft or an
//   external link, or a group that belay does not write; those of BoundedFile.
StatusOr<std::optional<int64_t>> FindLink(
    BoundedFile& file, const std::vector<StoredMessage>& messages,
    std::string_view name);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_READ_READ_LINKS_H_
