// The components of a sharded variable as shards. Pure.

#ifndef BELAY_VALUES_VARIABLE_SHARDS_H_
#define BELAY_VALUES_VARIABLE_SHARDS_H_

#include <memory>
#include <string_view>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/sharded_variable.h"

namespace belay {

// Returns the components that this rank holds, as they lie now.
std::vector<Shard> ShardsOfVariable(std::string_view key,
                                    const ShardedVariable& variable);

// Makes the shard of a component ask the variable where that lies, which may
// have been assigned to or swapped. A variable that has other components by
// then has no memory for the shard. The result must outlive the shard.
std::shared_ptr<void> FollowVariable(ShardedVariable& variable, Shard& shard);

}  // namespace belay

#endif  // BELAY_VALUES_VARIABLE_SHARDS_H_
