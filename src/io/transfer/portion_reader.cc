#include "io/transfer/portion_reader.h"

#include <algorithm>
#include <span>

#include "base/status_macros.h"
#include "geometry/runs.h"

namespace belay {
namespace {

// More would leave the caches.
constexpr int64_t kPortionBytes = int64_t{16} << 20;
constexpr size_t kPortionSegments = size_t{1} << 17;
constexpr int64_t kTileBytes = int64_t{256} << 10;
// A portion is held by its rank, on its way there and up to twice here, and
// perhaps converted; memory that is used again has room to spare.
constexpr int64_t kTimesHeld = 6;

}  // namespace

int64_t PortionWeight(int64_t memory) {
  return std::max(kLeastGatherMemory, memory) / kTimesHeld;
}

PortionReader::PortionReader(const WriteJob& job)
    : job_(job),
      most_weight_(PortionWeight(job.memory)),
      formed_{job.shards, job.forms, job.losses},
      sum_(job.registers) {}

StatusOr<Segments> PortionReader::Next(int64_t round) {
  Segments segments;
  if (!HasMore(round)) return segments;
  BELAY_RETURN_IF_ERROR(StartRound(
      formed_, std::span(job_.writes.orders).subspan(next_order_),
      std::min(kPortionBytes + kTileBytes, most_weight_ + most_weight_ / 4),
      staging_));
  const auto weight = [&](int64_t bytes) {
    return bytes + std::ssize(segments) * kSegmentWeight;
  };
  int64_t bytes = 0;
  while (bytes < kPortionBytes && segments.size() < kPortionSegments &&
         weight(bytes) < most_weight_ && HasMore(round)) {
    bytes += AddTile(job_.writes.orders[next_order_], segments);
  }
  SortByOffset(segments);
  return segments;
}

void PortionReader::CutIntoTiles(const WriteOrder& order) {
  const int64_t element_size = StoredElementSize(formed_, order.shard);
  int64_t tile = kTileBytes;
  if (!IsEmpty(order.box)) {
    // What is staged lies dense.
    const Box held = IsStaged(formed_, order.shard)
                         ? order.box
                         : OwnMemory(formed_, order.shard).box;
    const int64_t run =
        FirstRun(order.box, held, order.extent.box).length * element_size;
    const int64_t weight = most_weight_ / 4;
    tile = std::min(tile,
                    weight - weight * kSegmentWeight / (run + kSegmentWeight));
  }
  ForEachTile(order.box, std::max<int64_t>(1, tile / element_size),
              [&](const Box& box) { tiles_.push_back(box); });
}

int64_t PortionReader::AddTile(const WriteOrder& order, Segments& segments) {
  if (tiles_.empty()) CutIntoTiles(order);
  int64_t bytes = 0;
  if (!tiles_.empty()) {
    const Box& tile = tiles_[next_tile_++];
    const ShardMemory memory =
        StageForSave(formed_, order.shard, tile, staging_);
    sum_.Add(memory, tile, order.first_block);
    ReportProgress(job_, order.shard, tile);
    ForEachSegment(memory, tile, order.extent,
                   [&](char* data, int64_t offset, int64_t length) {
                     segments.push_back({data, offset, length});
                     bytes += length;
                   });
  }
  if (next_tile_ == tiles_.size()) {
    ++next_order_;
    tiles_.clear();
    next_tile_ = 0;
  }
  return bytes;
}

}  // namespace belay
