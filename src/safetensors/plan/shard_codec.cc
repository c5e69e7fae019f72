#include "safetensors/plan/shard_codec.h"

#include <cstdint>

namespace belay::safetensors {

void PutShards(WireWriter& out, const std::vector<ShardInfo>& shards) {
  out.Put<uint64_t>(shards.size());
  for (const ShardInfo& shard : shards) {
    out.PutText(shard.key);
    out.Put(shard.dtype);
    out.PutShape(shard.global_shape);
    out.PutBox(shard.box);
  }
}

std::vector<ShardInfo> GetShards(WireReader& in) {
  return in.GetAll<ShardInfo>([&] {
    ShardInfo shard;
    shard.key = in.GetText();
    shard.dtype = in.Get<DType>();
    shard.global_shape = in.GetShape();
    shard.box = in.GetBox();
    return shard;
  });
}

}  // namespace belay::safetensors
