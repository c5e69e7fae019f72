// The links of a group as bytes: in its header, or in a heap with an index of
// names.

#ifndef BELAY_FORMAT_WRITE_LINKS_H_
#define BELAY_FORMAT_WRITE_LINKS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace belay::h5 {

// The heap in which the links of a large group lie, as bytes.
//
// One block holds them up to a mebibyte; more lie in blocks of a mebibyte each,
// below one block of blocks. HDF5 makes more and smaller ones; it reads any of
// them, and can add to them.

// The most bytes of one link in a heap, and of all of them with what is left
// over at the end of each block.
inline constexpr int64_t kMaxLinkBytes = 65535;
inline constexpr int64_t kMaxHeapBytes = int64_t{1} << 31;

// The place of a link in the heap.
struct HeapPlace {
  int64_t offset;
  int64_t bytes;
};

// Returns the bytes of an id by which the index finds a link.
std::string EncodedHeapId(const HeapPlace& place);

// Puts links into blocks as they come.
class LinkHeapWriter {
 public:
  // `num_links` and `link_bytes` are of all links, `longest` of one.
  LinkHeapWriter(int64_t num_links, int64_t link_bytes, int64_t longest);

  // Adds a link. Returns its place.
  HeapPlace Add(const std::string& link);

  // Appends the heap; `start` is the address of the first byte of `out`.
  // Returns its address.
  int64_t Put(std::string& out, int64_t start);

 private:
  void PutHeader(std::string& out, int64_t root) const;
  int64_t NumRows() const;

  int64_t num_links_;
  int64_t block_bytes_;
  int64_t most_link_bytes_;  // that HDF5 may add
  int64_t width_ = 4;        // blocks in a row
  int64_t used_bytes_ = 0;
  std::vector<std::string> blocks_;  // without what stands before the links
};

// Returns whether a heap surely has at most kMaxHeapBytes if its links have
// `link_bytes` together, and the longest has `longest`.
bool FitsHeap(int64_t link_bytes, int64_t longest);

// The index of the links of a large group, as bytes: a B-tree of one leaf, or
// of one node with leaves below it.

// Links of a group. HDF5 numbers the links below a node in 16 bits.
inline constexpr int64_t kMaxLinksOfLeaf = 65000;
inline constexpr int64_t kMaxLinks = int64_t{1} << 30;

// The place of a link in the heap, under the checksum of its name.
struct NameRecord {
  uint32_t hash;
  std::string_view name;
  HeapPlace place;
};

// Appends the index of at least one link; `start` is the address of the first
// byte of `out`. Returns its address.
int64_t PutNameIndex(std::string& out, int64_t start,
                     std::vector<NameRecord> records);

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
