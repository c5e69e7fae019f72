// Device names: which task, replica and job holds a shard.
//
// Text form and parsing follow TensorFlow's DeviceSpec, except that negative
// numbers and an empty job are refused.

#ifndef BELAY_ARRAYS_DEVICE_H_
#define BELAY_ARRAYS_DEVICE_H_

#include <optional>
#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// A device. Every part is optional; unset parts are not printed.
struct DeviceSpec {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> device_type;  // "CPU", "GPU", ...
  std::optional<int> device_index;         // unset: any

  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

// The job name of a program that has none.
inline constexpr std::string_view kDefaultJob = "belay";

// Returns the canonical text "/job:J/replica:R/task:T/device:TYPE:INDEX", each
// part only if set; a type without an index prints ":*". Local.
std::string DeviceText(const DeviceSpec& device);

// Parses a device name: the canonical form, or the short forms "/cpu:0",
// "gpu:3", "/GPU". If a part is given twice, the last one is used. Local.
// Errors: InvalidArgument - an unknown part, two device types, a number that
//   is not a non-negative int, an empty job.
StatusOr<DeviceSpec> ParseDevice(std::string_view text);

// Returns `base` with every part that is set in `over` replaced. Local.
DeviceSpec MergeDevice(const DeviceSpec& base, const DeviceSpec& over);

// Returns the device of an MPI rank: /job:J/replica:R/task:T/device:CPU:0 with
// task = rank. Local.
DeviceSpec RankDevice(std::string_view job, int replica, int rank);

}  // namespace belay

#endif  // BELAY_ARRAYS_DEVICE_H_
