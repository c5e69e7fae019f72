#include "shard_devices.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/arrays/layout.h"

namespace belay::tools {
namespace {

// Layouts on more ranks are not shown shard by shard.
constexpr int kMaxRanks = 1 << 16;
constexpr size_t kMaxDevices = 4;

}  // namespace

std::vector<HeldShard> ShardsOf(const StoredPiece& piece,
                                const ArrayInfo& array, int64_t& boxes_left) {
  if (piece.task) {
    const DeviceSpec device{.task = static_cast<int>(*piece.task)};
    return {{.box = piece.box, .devices = {device}}};
  }
  if (array.layout.empty()) return {};
  const StatusOr<Layout> layout = Layout::Parse(array.layout);
  if (!layout.ok()) return {};
  const int num_ranks = layout->mesh().num_ranks();
  if (num_ranks > kMaxRanks || num_ranks > boxes_left) return {};
  boxes_left -= num_ranks;
  const bool has_replicas = layout->NumReplicas() > 1;
  std::map<std::pair<Shape, Shape>, HeldShard> shards;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const StatusOr<Box> box = layout->LocalBox(array.shape, rank);
    if (!box.ok() || box->shape.size() != piece.box.shape.size()) return {};
    const std::optional<Box> part = Intersect(*box, piece.box);
    if (!part) continue;
    HeldShard& shard = shards[{part->offset, part->shape}];
    shard.box = *part;
    DeviceSpec device{.task = rank};
    if (has_replicas) device.replica = static_cast<int>(layout->Replica(rank));
    shard.devices.push_back(std::move(device));
  }
  std::vector<HeldShard> all;
  all.reserve(shards.size());
  for (auto& [place, shard] : shards) all.push_back(std::move(shard));
  return all;
}

std::string DevicesText(const std::vector<DeviceSpec>& devices) {
  const size_t shown =
      devices.size() > kMaxDevices ? kMaxDevices - 1 : devices.size();
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) text += ' ';
    text += DeviceText(devices[i]);
  }
  if (shown == devices.size()) return text;
  return absl::StrFormat("%s and %d others", text, devices.size() - shown);
}

}  // namespace belay::tools
