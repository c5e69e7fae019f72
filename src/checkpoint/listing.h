// Listing: the values of a State as shards of this rank.

#ifndef BELAY_CHECKPOINT_LISTING_H_
#define BELAY_CHECKPOINT_LISTING_H_

#include <vector>

#include "belay/shard.h"
#include "belay/state.h"
#include "model/plan.h"

namespace belay {

// The shards of `state` with the device and, for values that every rank holds,
// the replica number of `rank`. Local.
std::vector<Shard> ListShards(const State& state, int rank);

// The same without bytes. Local.
std::vector<ShardInfo> DescribeShards(const std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_CHECKPOINT_LISTING_H_
