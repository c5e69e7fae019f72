// A sharding policy: what is known of it, and its call for tasks that are known
// to be such.

#ifndef BELAY_PLAN_POLICY_APPLY_POLICY_H_
#define BELAY_PLAN_POLICY_APPLY_POLICY_H_

#include <vector>

#include "belay/status.h"
#include "belay/values/sharding_policy.h"

namespace belay {

// The pieces of one task, at least one.
using TaskPieces = std::vector<ShardableTensor>;

// Checks what is wrong with a policy before it is called. Local.
// Errors: InvalidArgument - it has no description.
Status CheckDescription(const ShardingPolicy& policy);

// Whether equal parameters promise an equal result, so that a plan may be
// reused. Local.
bool VouchesForItself(const ShardingPolicy& policy);

// As ApplyPolicy, once for each of these tasks. The pieces of one may be of
// several replicas, as those of a rank are that holds values with layouts.
// Errors: those of ApplyPolicy.
StatusOr<std::vector<Grouping>> ApplyToTasks(
    const ShardingPolicy& policy, const std::vector<TaskPieces>& tasks);

}  // namespace belay

#endif  // BELAY_PLAN_POLICY_APPLY_POLICY_H_
