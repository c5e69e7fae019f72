// Groups: the names in them and what they lead to, as bytes.
//
// Up to 8 links lie in the header of their group. More lie in a heap of one
// block, with one leaf of a B-tree that finds them by the checksums of their
// names. HDF5 makes more and smaller blocks; it reads any of them, and can add
// to them.

#ifndef BELAY_HDF5_FORMAT_GROUP_LINKS_H_
#define BELAY_HDF5_FORMAT_GROUP_LINKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace belay::h5 {

// Links that one group can have here, and the bytes of a name.
inline constexpr int64_t kMaxLinks = 65000;
inline constexpr size_t kMaxNameBytes = 1024;
// More links than this are kept in an index.
inline constexpr unsigned kMaxCompactLinks = 8;

// A name in a group, and the address of the object's header.
struct Link {
  std::string_view name;
  int64_t address;
};

// Appends the header of a group, with all that belongs to it. `start` is the
// address of the first byte of `out`. Local. Returns the address of the header.
int64_t PutGroup(std::string& out, int64_t start,
                 const std::vector<Link>& links);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_GROUP_LINKS_H_
