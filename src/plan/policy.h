// Sharding policies: how they are asked, and what they return.

#ifndef BELAY_PLAN_POLICY_H_
#define BELAY_PLAN_POLICY_H_

#include <cstdint>
#include <vector>

#include "belay/status.h"
#include "belay/values/sharding_policy.h"

namespace belay {

// The function of the policy ShardByTask.

// By its type a plan knows the default policy. The command has this code beside
// the library that it links: lambdas would have a type in each of them.
struct GroupByTask {
  StatusOr<Grouping> operator()(
      const std::vector<ShardableTensor>& pieces) const;
};

// Pieces as they are listed for a sharding policy: are they sound?
//
// In:  the pieces of any tasks, before a policy has seen them.
// Out: one Status. Policies and the checks of their results rely on it.

// The bytes of a box of `like`'s array: a string's are those of `like`.
int64_t PieceBytes(const ShardableTensor& like, const Box& box);

// The job, replica and task of a device, without its type.
DeviceSpec TaskOf(const DeviceSpec& device);

// Whether two devices belong to one task, as process: it may hold copies of
// several replicas.
bool SameTask(const DeviceSpec& a, const DeviceSpec& b);
// Whether they also name the same replica.
bool SameReplica(const DeviceSpec& a, const DeviceSpec& b);

// Checks each piece for itself.
// Errors: InvalidArgument - an unknown dtype, a shape that is no array, a box
//   outside of it, or bytes that are not those of the box.
Status CheckListed(const std::vector<ShardableTensor>& listed);

// Checks the pieces of one key, one or more, against each other.
// Errors: InvalidArgument - another dtype or global shape, or boxes overlap.
Status CheckListedKey(const std::vector<const ShardableTensor*>& listed);

// A sharding policy: what is known of it, and its call for tasks that are known
// to be such.

// The pieces of one task, at least one.
using TaskPieces = std::vector<ShardableTensor>;

// Checks what is wrong with a policy before it is called.
// Errors: InvalidArgument - it has no description.
Status CheckDescription(const ShardingPolicy& policy);

// Whether equal parameters promise an equal result, so that a plan may be
// reused.
bool VouchesForItself(const ShardingPolicy& policy);

// As ApplyPolicy, once for each of these tasks. The pieces of one may be of
// several replicas, as those of a rank are that holds values with layouts.
// Errors: those of ApplyPolicy.
StatusOr<std::vector<Grouping>> ApplyToTasks(
    const ShardingPolicy& policy, const std::vector<TaskPieces>& tasks);

}  // namespace belay

#endif  // BELAY_PLAN_POLICY_H_
