// The heap in which the links of a large group lie, as bytes.
//
// One block holds them up to a mebibyte; more lie in blocks of a mebibyte each,
// below one block of blocks. HDF5 makes more and smaller ones; it reads any of
// them, and can add to them.

#ifndef BELAY_HDF5_FORMAT_WRITE_WRITE_LINK_HEAP_H_
#define BELAY_HDF5_FORMAT_WRITE_WRITE_LINK_HEAP_H_

#include <cstdint>
#include <string>
#include <vector>

namespace belay::h5 {

// The most bytes of one link in a heap, and of all of them with what is left
// over at the end of each block.
inline constexpr int64_t kMaxLinkBytes = 65535;
inline constexpr int64_t kMaxHeapBytes = int64_t{1} << 31;

// Where a link lies in the heap.
struct HeapPlace {
  int64_t offset;
  int64_t bytes;
};

// Returns the bytes of an id by which the index finds a link. Local.
std::string EncodedHeapId(const HeapPlace& place);

// Puts links into blocks as they come. Local.
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

// Returns whether a heap of links of so many bytes, the longest of `longest`,
// surely has at most kMaxHeapBytes.
// Local.
bool FitsHeap(int64_t link_bytes, int64_t longest);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_WRITE_WRITE_LINK_HEAP_H_
