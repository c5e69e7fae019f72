// Finds the tasks that held the shards of a dataset.

#ifndef BELAY_TOOLS_SHARD_DEVICES_H_
#define BELAY_TOOLS_SHARD_DEVICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/device.h"
#include "belay/checkpoint_reader.h"

namespace belay::tools {

struct HeldShard {
  Box box;  // of the array
  // One device for each replica, ordered by task. Only stored parts: no job, no
  // device type, and a replica only if there are several.
  std::vector<DeviceSpec> devices;
};

// The maximum number of boxes of ranks that one list of shards compares with
// datasets. Without a limit, a small index could describe very many datasets of
// arrays on very many ranks.
inline constexpr int64_t kMaxBoxes = int64_t{1} << 21;

// Returns the shards of a dataset of `array`: all of it if one task wrote it,
// else those of the stored layout. Returns none if neither is stored, or if the
// layout has more ranks than `boxes_left`. Subtracts the number of ranks from
// `boxes_left`.
std::vector<HeldShard> ShardsOf(const StoredPiece& piece,
                                const ArrayInfo& array, int64_t& boxes_left);

// Returns text such as "/task:0" or "/replica:0/task:0 /replica:1/task:4"; for
// more than four replicas, the first three and the number of the others.
std::string DevicesText(const std::vector<DeviceSpec>& devices);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_SHARD_DEVICES_H_
