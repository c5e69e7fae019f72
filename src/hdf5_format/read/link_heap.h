// The heap in which the links of a large group lie.

#ifndef BELAY_HDF5_FORMAT_READ_LINK_HEAP_H_
#define BELAY_HDF5_FORMAT_READ_LINK_HEAP_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "belay/status.h"
#include "hdf5_format/read/bounded_file.h"

namespace belay::h5 {

// What the header of a fractal heap says of its blocks.
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

// Local.
// Errors: DataLoss - damaged; Unimplemented - a heap with filters; those of
//   BoundedFile.
StatusOr<LinkHeap> OpenLinkHeap(BoundedFile& file, int64_t address);

// Returns the bytes that an entry of the index leads to; the file owns them.
// Local.
// Errors: DataLoss - damaged; Unimplemented - a name of more than 4096 bytes;
//   those of BoundedFile.
StatusOr<std::string_view> ReadFromHeap(BoundedFile& file, const LinkHeap& heap,
                                        std::string_view id);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_READ_LINK_HEAP_H_
