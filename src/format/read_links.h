// The links of a group, read from its header, its heap and its index of names.

#ifndef BELAY_FORMAT_READ_LINKS_H_
#define BELAY_FORMAT_READ_LINKS_H_

#include <optional>

#include "format/read_header.h"

namespace belay::h5 {

// The bytes that say where in the heap a link lies.
inline constexpr int kHeapIdBytes = 7;

// Returns the address of the object that a link of a group leads to, or nothing
// if there is no link of that name. `messages` are those of the group. Takes as
// long as a search does, however many links there are.
// Errors: DataLoss - damaged, or no group; Unimplemented - a soft or an
//   external link, or a group that belay does not write; those of BoundedFile.
StatusOr<std::optional<int64_t>> FindLink(
    BoundedFile& file, const std::vector<StoredMessage>& messages,
    std::string_view name);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_READ_LINKS_H_
