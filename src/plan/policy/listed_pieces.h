// Pieces as they are listed for a sharding policy: are they sound?
//
// In:  the pieces of any tasks, before a policy has seen them.
// Out: one Status. Policies and the checks of their results rely on it.

#ifndef BELAY_PLAN_POLICY_LISTED_PIECES_H_
#define BELAY_PLAN_POLICY_LISTED_PIECES_H_

#include <cstdint>
#include <vector>

#include "belay/status.h"
#include "belay/values/sharding_policy.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_PLAN_POLICY_LISTED_PIECES_H_
