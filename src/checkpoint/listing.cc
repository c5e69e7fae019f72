#include "checkpoint/listing.h"

namespace belay {

std::vector<Shard> ListShards(const State& state, int rank) {
  std::vector<Shard> shards = state.shards();
  const DeviceSpec device = RankDevice("belay", 0, rank);
  for (Shard& shard : shards) {
    if (shard.replica == State::kReplicaIsRank) shard.replica = rank;
    shard.device = device;
  }
  return shards;
}

std::vector<ShardInfo> DescribeShards(const std::vector<Shard>& shards) {
  std::vector<ShardInfo> infos;
  infos.reserve(shards.size());
  for (const Shard& shard : shards) {
    const bool is_text = shard.dtype == DType::kString;
    infos.push_back(
        {.key = shard.key,
         .dtype = shard.dtype,
         .global_shape = shard.global_shape,
         .box = shard.box,
         .replica = shard.replica,
         .string_bytes =
             is_text ? static_cast<int64_t>(shard.text->size()) : 0});
  }
  return infos;
}

}  // namespace belay
