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

std::vector<StoredForm> FormsToStore(const std::vector<Shard>& shards,
                                     const SaveOptions& options) {
  std::vector<StoredForm> forms;
  if (!options.float32_as_bfloat16) return forms;
  forms.reserve(shards.size());
  for (const Shard& shard : shards) {
    forms.push_back(
        {.dtype = shard.dtype == DType::kF32 ? DType::kBF16 : shard.dtype,
         .shape = shard.global_shape});
  }
  return forms;
}

std::vector<ShardInfo> DescribeShards(const std::vector<Shard>& shards,
                                      const std::vector<StoredForm>& forms) {
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
  for (size_t i = 0; i < forms.size(); ++i) infos[i].dtype = forms[i].dtype;
  return infos;
}

}  // namespace belay
