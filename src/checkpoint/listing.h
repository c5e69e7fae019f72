// Listing: the values of a State as shards of this rank.

#ifndef BELAY_CHECKPOINT_LISTING_H_
#define BELAY_CHECKPOINT_LISTING_H_

#include <vector>

#include "base/wire.h"
#include "belay/shard.h"
#include "belay/state.h"
#include "model/plan.h"

namespace belay {

// The shards of `state` with the device and, for values that every rank holds,
// the replica number of `rank`. Local.
std::vector<Shard> ListShards(const State& state, int rank);

// Appends all that a plan depends on: everything but the values. Local.
void PutStructure(const std::vector<Shard>& shards, WireWriter& out);

// The same shards without bytes. Local.
std::vector<ShardInfo> DescribeShards(const std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_CHECKPOINT_LISTING_H_
