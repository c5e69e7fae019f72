#include "checkpoint/listing.h"

namespace belay {
namespace {

// The length of a text; 0 for other types.
int64_t StringBytes(const Shard& shard) {
  if (shard.dtype != DType::kString) return 0;
  return static_cast<int64_t>(shard.text->size());
}

}  // namespace

std::vector<Shard> ListShards(const State& state, int rank) {
  std::vector<Shard> shards = state.shards();
  const DeviceSpec device = RankDevice("belay", 0, rank);
  for (Shard& shard : shards) {
    if (shard.replica == State::kReplicaIsRank) shard.replica = rank;
    shard.device = device;
  }
  return shards;
}

void PutStructure(const std::vector<Shard>& shards, WireWriter& out) {
  for (const Shard& shard : shards) {
    PutShard(out, shard.key, shard.dtype, shard.global_shape, shard.box,
             shard.replica, StringBytes(shard));
  }
}

std::vector<ShardInfo> DescribeShards(const std::vector<Shard>& shards) {
  std::vector<ShardInfo> infos;
  infos.reserve(shards.size());
  for (const Shard& shard : shards) {
    infos.push_back({.key = shard.key,
                     .dtype = shard.dtype,
                     .global_shape = shard.global_shape,
                     .box = shard.box,
                     .replica = shard.replica,
                     .string_bytes = StringBytes(shard)});
  }
  return infos;
}

}  // namespace belay
