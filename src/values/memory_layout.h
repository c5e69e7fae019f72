// Where the elements of a shard lie in the program's memory. Pure.
//
// In:  memory, and how a box lies in it. Out: the shard's first element, its
//      strides, and the ghost cells around it.

#ifndef BELAY_VALUES_MEMORY_LAYOUT_H_
#define BELAY_VALUES_MEMORY_LAYOUT_H_

#include <vector>

#include "belay/arrays/memory.h"
#include "belay/arrays/shard.h"
#include "belay/status.h"

namespace belay {

// Gives a shard, whose box is known, its elements in `memory`.
// Errors: InvalidArgument - the memory has another size than the box with its
//   ghost cells, or its layout has another number of axes, negative numbers,
//   or several elements in one place.
Status TakeMemory(const Memory& memory, Shard& shard);

// Returns the shards that a restore reads for a shard: itself, larger by the
// ghost cells that it fills, and others with the same key where these lie at
// the other end of a periodic axis.
// Errors: InvalidArgument - there are very many.
StatusOr<std::vector<Shard>> WithGhostCells(Shard shard);

}  // namespace belay

#endif  // BELAY_VALUES_MEMORY_LAYOUT_H_
