// The links of a group as bytes: in its header, or in a heap with an index of
// names.

#ifndef BELAY_FORMAT_WRITE_LINKS_H_
#define BELAY_FORMAT_WRITE_LINKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace belay::h5 {

// The most bytes of one link in a heap.
inline constexpr int64_t kMaxLinkBytes = 65535;

// Returns whether a heap surely has at most 2 GiB if its links have
// `link_bytes` together, and the longest has `longest`.
bool FitsHeap(int64_t link_bytes, int64_t longest);

// Links of a group. HDF5 numbers the links below a node in 16 bits.
inline constexpr int64_t kMaxLinksOfLeaf = 65000;
inline constexpr int64_t kMaxLinks = int64_t{1} << 30;

// Groups: the names in them and what they lead to, as bytes.
//
// Up to 8 links lie in the header of their group. More lie in a heap, with a
// B-tree that finds them by the checksums of their names.

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

// Returns the bytes that a link takes.
int64_t LinkBytes(const Link& link);

// Appends the header of a group, with all that belongs to it. `start` is the
// address of the first byte of `out`. The links have different names, take at
// most kMaxLinkBytes each, and FitsHeap. Returns the address of the
// header.
int64_t PutGroup(std::string& out, int64_t start,
                 const std::vector<Link>& links);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_WRITE_LINKS_H_
