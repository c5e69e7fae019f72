// The function of the policy ShardByTask.

#ifndef BELAY_PLAN_GROUP_BY_TASK_H_
#define BELAY_PLAN_GROUP_BY_TASK_H_

#include <vector>

#include "belay/status.h"
#include "belay/values/sharding_policy.h"

namespace belay {

// By its type a plan knows the default policy. The command has this code beside
// the library that it links: lambdas would have a type in each of them.
struct GroupByTask {
  StatusOr<Grouping> operator()(
      const std::vector<ShardableTensor>& pieces) const;
};

}  // namespace belay

#endif  // BELAY_PLAN_GROUP_BY_TASK_H_
