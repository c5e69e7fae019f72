#include "plan/save/replica_check.h"

#include <algorithm>
#include <utility>

#include "belay/arrays/box.h"
#include "belay/arrays/flat_buffer.h"
#include "bytes/fingerprint.h"
#include "plan/shard_store.h"

namespace belay {
namespace {

// A sample is so many windows of so many bytes.
constexpr int kWindows = 4;
constexpr size_t kWindowBytes = kSampledBytes / kWindows;
// What is hashed at a time: whole elements of any type.
constexpr size_t kHashedBytes = size_t{1} << 20;

struct WeighedShard {
  int32_t shard = 0;
  int64_t weight = 0;
};

// Joins shards that follow each other and have the same weight.
std::vector<ReplicaRange> RangesOf(std::vector<WeighedShard> shards) {
  std::sort(shards.begin(), shards.end(),
            [](const WeighedShard& a, const WeighedShard& b) {
              return a.shard < b.shard;
            });
  std::vector<ReplicaRange> ranges;
  for (const WeighedShard& one : shards) {
    if (!ranges.empty() && ranges.back().weight == one.weight &&
        ranges.back().first + ranges.back().count == one.shard) {
      ++ranges.back().count;
    } else {
      ranges.push_back({.first = one.shard, .count = 1, .weight = one.weight});
    }
  }
  return ranges;
}

// A number for the values of a box that is another one for another box: equal
// values that have changed places would add up to nothing.
uint64_t SeedOf(const Shard& shard) {
  uint64_t seed = Fingerprint(shard.key, 0);
  for (const int64_t offset : shard.box.offset) {
    seed = seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(offset) + 1;
  }
  return seed;
}

// Whether a large box is looked at in the save with this number.
bool IsSampled(uint64_t seed, const ReplicaCheck& check, int64_t number) {
  const auto each = static_cast<uint64_t>(
      std::max<int64_t>(1, check.num_boxes / kMostSampled));
  return (seed + static_cast<uint64_t>(number)) % each == 0;
}

size_t NumBytes(const Shard& shard) {
  if (shard.dtype == DType::kString) return shard.text->size();
  return static_cast<size_t>(NumElements(shard.box.shape) *
                             DTypeSize(shard.dtype));
}

// Some of the bytes of a shard as they are stored. Borrows them from the shard,
// or from `room` where they do not lie dense.
std::string_view SomeBytes(const Shard& shard, size_t begin, size_t length,
                           std::string& room) {
  if (shard.dtype == DType::kString) {
    return std::string_view(*shard.text).substr(begin, length);
  }
  if (!IsStrided(shard)) {
    return {static_cast<const char*>(shard.data) + begin, length};
  }
  // Whole elements, of which the first may begin before.
  const auto size = static_cast<size_t>(DTypeSize(shard.dtype));
  const size_t first = begin / size, last = (begin + length + size - 1) / size;
  room.resize((last - first) * size);
  char* next = room.data();
  for (const Box& box : BoxesOfRange(shard.box, static_cast<int64_t>(first),
                                     static_cast<int64_t>(last))) {
    GatherElements(shard, box, next);
    next += NumElements(box.shape) * DTypeSize(shard.dtype);
  }
  return std::string_view(room).substr(begin - first * size, length);
}

uint64_t SampleOf(const Shard& shard, uint64_t seed, int64_t number) {
  const size_t num_bytes = NumBytes(shard);
  const size_t part = num_bytes / kWindows;
  std::string bytes;
  uint64_t sum = seed;
  for (size_t window = 0; window < kWindows; ++window) {
    // All places of a part in turn, in strides without a pattern.
    const uint64_t turn = static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15;
    // The last part has what is left over.
    const size_t end = window + 1 == kWindows ? num_bytes : (window + 1) * part;
    const size_t room = end - window * part - kWindowBytes + 1;
    const size_t at = window * part + static_cast<size_t>(turn % room);
    sum = Fingerprint(SomeBytes(shard, at, kWindowBytes, bytes), sum);
  }
  return sum;
}

uint64_t NumberOf(const Shard& shard, const ReplicaCheck& check,
                  int64_t number) {
  const uint64_t seed = SeedOf(shard);
  if (number == kEveryByte ||
      static_cast<int64_t>(NumBytes(shard)) <= kSampledBytes) {
    return ReplicaFingerprint(shard, seed);
  }
  return IsSampled(seed, check, number) ? SampleOf(shard, seed, number) : 0;
}

}  // namespace

std::vector<ReplicaCheck> FindReplicas(const std::vector<ArrayBoxes>& arrays,
                                       int num_ranks) {
  std::vector<std::vector<WeighedShard>> ranks(static_cast<size_t>(num_ranks));
  int64_t num_boxes = 0;
  for (const ArrayBoxes& array : arrays) {
    for (const HeldBox& held : array.boxes) {
      const auto holders = static_cast<int64_t>(held.holders.size());
      if (holders < 2 || NumElements(held.box.shape) == 0) continue;
      ++num_boxes;
      int64_t weight = 1 - holders;
      for (const HeldShard& holder : held.holders) {
        ranks[static_cast<size_t>(holder.rank)].push_back(
            {.shard = holder.shard, .weight = std::exchange(weight, 1)});
      }
    }
  }
  std::vector<ReplicaCheck> checks;
  for (std::vector<WeighedShard>& shards : ranks) {
    checks.push_back(
        {.ranges = RangesOf(std::move(shards)), .num_boxes = num_boxes});
  }
  return checks;
}

uint64_t ReplicaFingerprint(const Shard& shard, uint64_t seed) {
  const size_t num_bytes = NumBytes(shard);
  std::string room;
  uint64_t sum = seed;
  // Windows of the same bytes however they lie.
  for (size_t at = 0; at < num_bytes; at += kHashedBytes) {
    const size_t length = std::min(kHashedBytes, num_bytes - at);
    sum = Fingerprint(SomeBytes(shard, at, length, room), sum);
  }
  return sum;
}

uint64_t SumOfReplicas(const ReplicaCheck& check,
                       const std::vector<Shard>& shards, int64_t number) {
  uint64_t sum = 0;
  for (const ReplicaRange& range : check.ranges) {
    uint64_t of_range = 0;
    for (int32_t i = range.first; i < range.first + range.count; ++i) {
      of_range += NumberOf(shards[static_cast<size_t>(i)], check, number);
    }
    sum += of_range * static_cast<uint64_t>(range.weight);
  }
  return sum;
}

void PutReplicaCheck(WireWriter& out, const ReplicaCheck& check) {
  out.Put(check.num_boxes);
  out.Put<uint64_t>(check.ranges.size());
  for (const ReplicaRange& range : check.ranges) {
    out.Put(range.first);
    out.Put(range.count);
    out.Put(range.weight);
  }
}

ReplicaCheck GetReplicaCheck(WireReader& in) {
  ReplicaCheck check;
  check.num_boxes = in.Get<int64_t>();
  check.ranges = in.GetAll<ReplicaRange>([&] {
    ReplicaRange range;
    range.first = in.Get<int32_t>();
    range.count = in.Get<int32_t>();
    range.weight = in.Get<int64_t>();
    return range;
  });
  return check;
}

}  // namespace belay
