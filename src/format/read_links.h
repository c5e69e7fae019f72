// The links of a group, read from its header, its heap and its index of names.

#ifndef BELAY_FORMAT_READ_LINKS_H_
#define BELAY_FORMAT_READ_LINKS_H_

#include <optional>

#include "format/read_header.h"

namespace belay::h5 {

// The heap in which the links of a large group lie.

// The blocks of a fractal heap, as its header describes them.
struct LinkHeap {
  int64_t address = 0;
  int offset_width = 0;  // of a place in the heap
  int length_width = 0;
  int64_t row_width = 0;    // blocks in a row
  int64_t start_bytes = 0;  // of a block of the first two rows
  int64_t direct_rows = 0;  // rows of blocks that hold links
  int64_t root = 0;
  int64_t root_rows = 0;  // 0: the root is the only block
};

// Errors: DataLoss - damaged; Unimplemented - a heap with filters; those of
//   BoundedFile.
StatusOr<LinkHeap> OpenLinkHeap(BoundedFile& file, int64_t address);

// Returns the bytes that an entry of the index leads to; the file owns them.
// Errors: DataLoss - damaged; Unimplemented - a name of more than 4096 bytes;
//   those of BoundedFile.
StatusOr<std::string_view> ReadFromHeap(BoundedFile& file, const LinkHeap& heap,
                                        std::string_view id);

// The index of the links of a large group: a B-tree by the hash of the name.

// The bytes that say where in the heap a link lies.
inline constexpr int kHeapIdBytes = 7;

// Returns the places in the heap of all links whose names have this hash, in no
// order. `address` is that of the header of a B-tree of version 2.
// Errors: DataLoss - damaged; Unimplemented - another kind of B-tree; those of
//   BoundedFile.
StatusOr<std::vector<std::string>> FindByHash(BoundedFile& file,
                                              int64_t address, uint32_t hash);

// Finds what a group has under a name.

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
