// Sharding policies: which pieces of a task are stored together.
//
// A save first decides which rank writes what. A policy then sorts the pieces
// of one task into groups, and may split them; the file layout decides which
// groups share a file. The policy does not affect the values of a checkpoint.
// (TensorFlow's ShardingCallback; its shards are groups here.)

#ifndef BELAY_VALUES_SHARDING_POLICY_H_
#define BELAY_VALUES_SHARDING_POLICY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/device.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"

namespace belay {

// A piece that a task will write, without its values.
struct ShardableTensor {
  std::string key;
  DType dtype = DType::kU8;
  Shape global_shape;
  Box box;  // of the array; a string is a scalar
  // Its job and task number identify the task that holds the piece. Its replica
  // number says which copy of the value the piece is, and may differ between
  // pieces of one task.
  DeviceSpec device;
  int64_t bytes = 0;  // of the box; for a string its length
  // The node of the task: the lowest rank that shares memory with it.
  int32_t node = 0;
};

// Pieces that are stored together. Never empty.
using ShardGroup = std::vector<ShardableTensor>;

// The result of a policy for the pieces of one task: group i is stored with
// group i of the other tasks. Converts from a list of groups.
struct Grouping {
  Grouping() = default;
  Grouping(std::vector<ShardGroup> made) : groups(std::move(made)) {}  // NOLINT

  std::vector<ShardGroup> groups;
  std::vector<std::string> warnings;
};

// A policy is plain data and a function; programs may define their own. It is
// called on rank 0, once for each task (in a save: each rank) that writes
// something. It may split pieces into boxes of the same array, but must not
// drop, duplicate, add, join or retype them, nor move them to other tasks.
// Every result is checked. An exception becomes an error of the save.
struct ShardingPolicy {
  // Names the policy in errors. Must not be empty.
  std::string description;
  // Names and values of everything that the result depends on besides the
  // pieces, in any fixed order. They must be equal on all ranks. A policy that
  // lists them guarantees that the list is complete: a PlanCache then reuses
  // its plan while description, parameters and the type of the function are
  // equal. If the result depends on the pieces alone, list a version, such as
  // {{"version", "1"}}. Empty: there is no such guarantee, so every save calls
  // the policy and plans again.
  std::vector<std::pair<std::string, std::string>> parameters;
  std::function<StatusOr<Grouping>(const std::vector<ShardableTensor>&)> group;
};

// One group with all pieces; no group if there are none. The default. Local.
ShardingPolicy ShardByTask();

// Groups of at most `max_bytes` bytes, filled in the order of the pieces.
// Local.
//
// A piece that does not fit into the rest of the current group is split: as
// many whole rows as fit go to that group, and the others go to new groups. A
// row is the part with one index on the first axis that is longer than 1. If at
// most one row fits into a group, the piece is split along the axis that needs
// the fewest groups; on a tie, the first such axis. If no slice along any axis
// fits, each row is split like a separate array. Pieces without elements count
// as 0 bytes.
//
// A single element (or a string) above the limit gets its own group, after all
// others, and a warning names its piece.
// Errors, when called: InvalidArgument - max_bytes is below 1, or so small that
//   there would be more than 2^22 groups.
ShardingPolicy MaxShardSize(int64_t max_bytes);

// Returns a hash of the description and the parameters, in their order; equal
// in every process. Local.
uint64_t PolicyHash(const ShardingPolicy& policy);

// Checks the groups that a policy made of `listed`, the pieces of one task with
// any replica numbers (or of several tasks, if no group mixes tasks): no piece
// is dropped, duplicated, added or joined; the boxes of each key tile the
// listed ones, and those without elements are all present; dtype, global shape,
// bytes and device, except its type, are unchanged; no group is empty. Local.
// Errors: InvalidArgument - all violations in one message, a line each with the
//   policy's description, key and box, the first 20 in full; or `listed` itself
//   is invalid.
Status ValidateGroups(const std::vector<ShardGroup>& groups,
                      const std::vector<ShardableTensor>& listed,
                      std::string_view description);

// Sorts pieces of any tasks by (job, replica, task), calls the policy once for
// each task, in order of first appearance, and validates the results. Returns
// one Grouping per task; none if there are no pieces. Local.
// Errors: those of the policy, prefixed with its description and the task, and
//   of ValidateGroups; InvalidArgument - a policy without a description or a
//   function; Internal - an exception, with its text.
StatusOr<std::vector<Grouping>> ApplyPolicy(
    const ShardingPolicy& policy, const std::vector<ShardableTensor>& listed);

}  // namespace belay

#endif  // BELAY_VALUES_SHARDING_POLICY_H_
