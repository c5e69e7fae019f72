// Finds the boxes of an array that must be read to compare a part of it with
// its checksums.

#ifndef BELAY_TOOLS_BLOCK_BOXES_H_
#define BELAY_TOOLS_BLOCK_BOXES_H_

#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"

namespace belay::tools {

struct BlockBoxes {
  std::vector<Box> boxes;
  bool all = true;  // false: the boxes of some blocks would have too many bytes
};

// Returns boxes that hold all blocks with elements of `parts`, which are boxes
// of an array of that shape. A block is 1 MiB of the array's bytes, row-major;
// its checksum can be compared only if all of it is read. A block that crosses
// the end of a row needs a box of two rows. All boxes together have at most
// `most_bytes`.
BlockBoxes BoxesOfBlocks(const Shape& shape, int64_t element_bytes,
                         const std::vector<Box>& parts, int64_t most_bytes);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_BLOCK_BOXES_H_
