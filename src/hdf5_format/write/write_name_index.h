// The index of the links of a large group, as bytes: a B-tree of one leaf, or
// of one node with leaves below it.

#ifndef BELAY_HDF5_FORMAT_WRITE_WRITE_NAME_INDEX_H_
#define BELAY_HDF5_FORMAT_WRITE_WRITE_NAME_INDEX_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5_format/write/write_link_heap.h"

namespace belay::h5 {

// Links of a group. HDF5 numbers the links below a node in 16 bits.
inline constexpr int64_t kMaxLinksOfLeaf = 65000;
inline constexpr int64_t kMaxLinks = int64_t{1} << 30;

// Where a link lies in the heap, under the checksum of its name.
struct NameRecord {
  uint32_t hash;
  std::string_view name;
  HeapPlace place;
};

// Appends the index of at least one link; `start` is the address of the first
// byte of `out`. Returns its address. Local.
int64_t PutNameIndex(std::string& out, int64_t start,
                     std::vector<NameRecord> records);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_WRITE_WRITE_NAME_INDEX_H_
