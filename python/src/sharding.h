// Sharding policies of Python programs.

#ifndef BELAY_PYTHON_SHARDING_H_
#define BELAY_PYTHON_SHARDING_H_

#include "belay/values/sharding_policy.h"
#include "options.h"

namespace belay::python {

// Reads the options sharding_policy and max_shard_size.
void ReadShardingPolicy(OptionReader& reader, ShardingPolicy& policy);

}  // namespace belay::python

#endif  // BELAY_PYTHON_SHARDING_H_
