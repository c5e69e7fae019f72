// Devices of shards: what a shard names of its own, and what is filled in.
//
// A rank is one task: all its shards have its number and one job. What is left
// open is /job:J/replica:R/task:T/device:CPU:0, where R is the replica number
// of a shard with a layout, its place along the mesh axes that cut nothing, and
// 0 of any other one.

#ifndef BELAY_PLAN_SHARD_DEVICE_H_
#define BELAY_PLAN_SHARD_DEVICE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/device.h"
#include "belay/arrays/shard.h"
#include "belay/status.h"

namespace belay {

// The device of a shard that names none. `layout` is that of the shard, or "".
DeviceSpec DefaultDevice(std::string_view job, int rank,
                         std::string_view layout, int64_t replica);

// Completes the devices of the shards of a rank. Their job is the one that any
// of them names, else `job`.
// Errors: InvalidArgument - a task that is not the rank, two jobs, a name that
//   is empty or has a '/' or a ':', or a negative number; names the key.
Status CompleteDevices(std::vector<Shard>& shards, const std::string& job,
                       int rank);

// What a complete device of this rank does not have from DefaultDevice, as text
// for MergeDevice; "" for nothing.
std::string OwnDevice(const DeviceSpec& device, const DeviceSpec& base);

}  // namespace belay

#endif  // BELAY_PLAN_SHARD_DEVICE_H_
