// A shard's memory as a store of elements.

#ifndef BELAY_PLAN_SHARD_STORE_H_
#define BELAY_PLAN_SHARD_STORE_H_

#include <cstdint>

#include "belay/arrays/shard.h"
#include "geometry/runs.h"

namespace belay {

// Returns where the elements lie. Borrows the shard.
inline StridedStore StoreOf(const Shard& shard) {
  return {shard.box, shard.strides};
}

// Whether they do not lie one behind the other, or are structs that lie in
// memory in another way than they are stored.
bool IsStrided(const Shard& shard);

// The bytes from the first element to the end of the last one. Requires that
// the box has elements.
int64_t SpanBytes(const Shard& shard);

// Copies a part of the shard to `to`, dense and row-major. No text.
void GatherElements(const Shard& shard, const Box& box, char* to);

// Copies a part of the shard from the store at `from`, which has `from_box`
// dense and row-major, to where the program has it. No text.
void ScatterElements(const Shard& shard, const Box& box, const char* from,
                     const Box& from_box);

}  // namespace belay

#endif  // BELAY_PLAN_SHARD_STORE_H_
