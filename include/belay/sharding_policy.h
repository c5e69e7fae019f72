// Sharding policies: which pieces of a task are stored together.
//
// A save first decides which rank writes what. A policy then sorts the pieces
// of one task into groups, and may cut them; the file layout decides which
// groups share a file. The values of a checkpoint do not depend on it.
// (TensorFlow's ShardingCallback; a group is what it calls a shard.)

#ifndef BELAY_SHARDING_POLICY_H_
#define BELAY_SHARDING_POLICY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/box.h"
#include "belay/device.h"
#include "belay/dtype.h"
#include "belay/status.h"

namespace belay {

// A piece that a task is going to write, without its values.
struct ShardableTensor {
  std::string key;
  DType dtype = DType::kU8;
  Shape global_shape;
  Box box;  // of the array; a string is a scalar
  // The task that holds it is named by job and number; the replica says which
  // copy of the value it holds, and may differ between pieces of one task.
  DeviceSpec device;
  int64_t bytes = 0;  // of the box; for a string its length
  // The node of the task: the lowest rank that shares memory with it.
  int32_t node = 0;
};

// Pieces that are stored together. Never empty.
using ShardGroup = std::vector<ShardableTensor>;

// What a policy makes of one task's pieces: group i goes with group i of the
// other tasks. A list of groups converts to it.
struct Grouping {
  Grouping() = default;
  Grouping(std::vector<ShardGroup> made) : groups(std::move(made)) {}  // NOLINT

  std::vector<ShardGroup> groups;
  std::vector<std::string> warnings;
};

// A policy is plain data and a function; anyone may make one. It is called once
// for each task (in a save: each rank) that writes something, on rank 0. It may
// cut pieces into boxes of the same array, but not drop, double, add, join or
// retype them, nor move them to other tasks. Every result is checked. An
// exception becomes an error of the save.
struct ShardingPolicy {
  std::string description;  // names the policy in errors
  // Names and values of all that the result depends on, in any fixed order.
  // Ranks must pass equal ones, and a PlanCache recognises a policy by them.
  std::vector<std::pair<std::string, std::string>> parameters;
  std::function<StatusOr<Grouping>(const std::vector<ShardableTensor>&)> group;
};

// One group with everything; no group for no pieces. The default. Local.
ShardingPolicy ShardByTask();

// Groups of at most `max_bytes` bytes, filled in the order of the pieces.
// Local.
//
// What does not fit into the rest of the open group is cut: as many whole rows
// as fit fill it up, the others go to new groups. A row is what has index i on
// the first axis that is longer than 1. Where at most one row fits into a
// group, the cut is along the axis that needs the fewest groups, the first of
// several; where no slice of any axis fits, each row is cut as an array of its
// own. Pieces without elements count 0 bytes.
//
// A single element (or a string) above the limit gets a group of its own, after
// all others, and its piece a warning.
// Errors, when called: InvalidArgument - max_bytes is below 1, or so small that
//   there would be more than 2^22 groups.
ShardingPolicy MaxShardSize(int64_t max_bytes);

// Returns a hash of description and parameters, in which order counts; the
// same in every process. Local.
uint64_t PolicyHash(const ShardingPolicy& policy);

// Checks what a policy made of `listed`, the pieces of one task, of any
// replicas (or of several tasks, if no group mixes them): none dropped,
// doubled, added or joined; the boxes of each key tile what was listed, and
// those without elements are all there; dtype, global shape, bytes and device
// but for its type unchanged; no empty group. Local. Errors: InvalidArgument -
// all violations in one message, a line each with the
//   policy's description, key and box, the first 20 in full; or `listed` itself
//   is not sound.
Status ValidateGroups(const std::vector<ShardGroup>& groups,
                      const std::vector<ShardableTensor>& listed,
                      std::string_view description);

// Sorts pieces of any tasks by (job, replica, task), calls the policy once for
// each task, in order of first appearance, and validates. Returns one Grouping
// per task, none for no pieces. Local.
// Errors: those of the policy, which get its description and the task in front,
//   and of ValidateGroups; InvalidArgument - a policy without function;
//   Internal - an exception, with its text.
StatusOr<std::vector<Grouping>> ApplyPolicy(
    const ShardingPolicy& policy, const std::vector<ShardableTensor>& listed);

}  // namespace belay

#endif  // BELAY_SHARDING_POLICY_H_
