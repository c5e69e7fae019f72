// Memory that files are slow to be read into.
//
// The kernel copies what it holds of a file with `rep movsb` where the
// processor calls that fast. AMD's family 25 (Zen 3, where it was measured, and
// Zen 4) does, but takes two to three times as long where the target lies 1 to
// 31 bytes further in its page than the source in its own. Large memory of
// glibc's malloc starts 16 bytes into a page, so that is what an array is often
// restored to whose bytes start with a page of its file. Reading them to memory
// that lies as they do first, and copying that by other instructions, takes
// half as long.

#ifndef BELAY_IO_FILES_SLOW_TARGET_H_
#define BELAY_IO_FILES_SLOW_TARGET_H_

#include <cstdint>

#include "plan/plan.h"
#include "plan/shard_memory.h"

namespace belay {

// Addresses and offsets that are equal modulo this lie in pages alike.
inline constexpr int64_t kPlaces = 4096;

// Whether this processor is one of those. Local.
bool HasSlowTargets();

// Returns whether `box`, which lies in a file as `extent` says, is better read
// elsewhere first on such a processor. Its first run stands for all. Local.
// Requires a box that is not empty.
bool IsSlowTarget(const ShardMemory& memory, const Box& box,
                  const Extent& extent);

}  // namespace belay

#endif  // BELAY_IO_FILES_SLOW_TARGET_H_
