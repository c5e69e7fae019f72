// Which tasks held the shards that a dataset consists of.

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
  // One for each replica, by task. Only what is stored: no job, no device type,
  // and a replica only if there are several.
  std::vector<DeviceSpec> devices;
};

// How many boxes of ranks one list of shards compares with datasets: a small
// index may have very many datasets of arrays on very many ranks.
inline constexpr int64_t kMaxBoxes = int64_t{1} << 21;

// Returns the shards of a dataset of `array`: all of it if one task wrote it,
// else those of the layout that is stored; none if neither is, or if the layout
// has more ranks than `boxes_left`, which it is taken from.
std::vector<HeldShard> ShardsOf(const StoredPiece& piece,
                                const ArrayInfo& array, int64_t& boxes_left);

// "/task:0", or "/replica:0/task:0 /replica:1/task:4"; of more than four
// replicas the first three, and how many others.
std::string DevicesText(const std::vector<DeviceSpec>& devices);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_SHARD_DEVICES_H_
