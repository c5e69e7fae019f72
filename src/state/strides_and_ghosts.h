// Strides and ghost cells: where a shard's elements lie in memory.

#ifndef BELAY_STATE_STRIDES_AND_GHOSTS_H_
#define BELAY_STATE_STRIDES_AND_GHOSTS_H_

#include <vector>

#include "belay/arrays/memory.h"
#include "belay/extend/shard.h"
#include "belay/status.h"

namespace belay {

// Sets the first element, the strides and the ghost cells of a shard, whose box
// is known.
// Errors: InvalidArgument - the memory does not have the size of the box with
//   its ghost cells, or its layout has the wrong number of axes, negative
//   numbers, or two elements at the same address.
Status SetMemory(const Memory& memory, Shard& shard);

// Returns the shards that a restore reads for a shard: the shard itself,
// extended by the ghost cells to fill, and further shards with the same key for
// ghost cells that wrap around a periodic axis.
// Errors: InvalidArgument - there are too many shards.
StatusOr<std::vector<Shard>> WithGhostCells(Shard shard);

}  // namespace belay

#endif  // BELAY_STATE_STRIDES_AND_GHOSTS_H_
