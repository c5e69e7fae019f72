// Shards without bytes as messages: what a rank is to carry.

#ifndef BELAY_SAFETENSORS_PLAN_SHARD_CODEC_H_
#define BELAY_SAFETENSORS_PLAN_SHARD_CODEC_H_

#include <vector>

#include "bytes/wire.h"
#include "plan/plan.h"

namespace belay::safetensors {

// Appends shards. They are replica 0, have no layout, and are no texts.
void PutShards(WireWriter& out, const std::vector<ShardInfo>& shards);
std::vector<ShardInfo> GetShards(WireReader& in);

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_PLAN_SHARD_CODEC_H_
