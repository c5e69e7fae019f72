// A shard's memory as a store of elements.

#ifndef BELAY_MODEL_SHARD_STORE_H_
#define BELAY_MODEL_SHARD_STORE_H_

#include <cstdint>

#include "belay/shard.h"
#include "geometry/runs.h"

namespace belay {

// Returns where the elements lie. Borrows the shard.
inline StridedStore StoreOf(const Shard& shard) {
  return {shard.box, shard.strides};
}

// Whether they do not lie one behind the other.
inline bool IsStrided(const Shard& shard) { return !shard.strides.empty(); }

// The bytes from the first element to the end of the last one. Requires that
// the box has elements.
inline int64_t SpanBytes(const Shard& shard) {
  int64_t elements = 1;
  if (!IsStrided(shard)) elements = NumElements(shard.box.shape);
  for (size_t axis = 0; axis < shard.strides.size(); ++axis) {
    elements += (shard.box.shape[axis] - 1) * shard.strides[axis];
  }
  return elements * DTypeSize(shard.dtype);
}

}  // namespace belay

#endif  // BELAY_MODEL_SHARD_STORE_H_
