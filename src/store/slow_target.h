// Memory that files are slow to be read into.
//
// The kernel copies what it holds of a file with `rep movsb` where the
// processor calls that fast. AMD's of the last years do, but take two to three
// times as long where the target lies 1 to 31 bytes further in its page than
// the source in its own: memory of malloc, which starts 16 bytes into a page,
// and an array that starts with a page of its file. Reading to a page first,
// and copying that by other instructions, takes half as long.

#ifndef BELAY_STORE_SLOW_TARGET_H_
#define BELAY_STORE_SLOW_TARGET_H_

#include "model/plan.h"
#include "store/shard_memory.h"

namespace belay {

// Whether this processor is one of those. Local.
bool HasSlowTargets();

// Returns whether most bytes of `box`, which lie in a file as `extent` says,
// are better read elsewhere first. False on other processors. Local.
bool IsSlowTarget(const ShardMemory& memory, const Box& box,
                  const Extent& extent);

}  // namespace belay

#endif  // BELAY_STORE_SLOW_TARGET_H_
