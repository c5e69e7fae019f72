// Groups: the names in them and what they lead to, as bytes.
//
// Up to 8 links lie in the header of their group. More lie in a heap, with a
// B-tree that finds them by the checksums of their names.

#ifndef BELAY_HDF5_FORMAT_WRITE_GROUP_LINKS_H_
#define BELAY_HDF5_FORMAT_WRITE_GROUP_LINKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace belay::h5 {

// More links than this are kept in an index.
inline constexpr unsigned kMaxCompactLinks = 8;

// A name in a group, and what it leads to: an object of this file by the
// address of its header, or one of another file.
struct Link {
  std::string_view name;
  int64_t address = 0;
  std::string_view file = {};  // not empty: `target` is an object of it
  std::string_view target = {};
};

// Returns the bytes that a link takes. Local.
int64_t LinkBytes(const Link& link);

// Appends the header of a group, with all that belongs to it. `start` is the
// address of the first byte of `out`. The links have different names, take at
// most kMaxLinkBytes each, and FitsHeap. Local. Returns the address of the
// header.
int64_t PutGroup(std::string& out, int64_t start,
                 const std::vector<Link>& links);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_WRITE_GROUP_LINKS_H_
