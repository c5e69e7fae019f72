#include "plan/shard_store.h"

#include "geometry/strided_copy.h"
#include "geometry/struct_copy.h"

namespace belay {

bool IsStrided(const Shard& shard) {
  return !shard.strides.empty() ||
         (shard.structs != nullptr && !IsDense(*shard.structs));
}

int64_t SpanBytes(const Shard& shard) {
  if (shard.structs != nullptr) {
    return shard.box.shape[0] * shard.structs->bytes;
  }
  int64_t elements = 1;
  if (shard.strides.empty()) elements = NumElements(shard.box.shape);
  for (size_t axis = 0; axis < shard.strides.size(); ++axis) {
    elements += (shard.box.shape[axis] - 1) * shard.strides[axis];
  }
  return elements * DTypeSize(shard.dtype);
}

void GatherElements(const Shard& shard, const Box& box, char* to) {
  const auto* from = static_cast<const char*>(shard.data);
  if (shard.structs != nullptr) {
    return PackStructs(*shard.structs, box, from, shard.box, to, box);
  }
  const Shape dense;
  CopyElements(box, from, StoreOf(shard), to, {box, dense},
               DTypeSize(shard.dtype));
}

void ScatterElements(const Shard& shard, const Box& box, const char* from,
                     const Box& from_box) {
  auto* const to = static_cast<char*>(shard.data);
  if (shard.structs != nullptr) {
    return UnpackStructs(*shard.structs, box, from, from_box, to, shard.box);
  }
  const Shape dense;
  CopyElements(box, from, {from_box, dense}, to, StoreOf(shard),
               DTypeSize(shard.dtype));
}

}  // namespace belay
