#include "plan/save/replica_check.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/ceil_divide.h"
#include "belay/arrays/box.h"
#include "belay/arrays/flat_buffer.h"
#include "bytes/fingerprint.h"
#include "plan/shard_store.h"

namespace belay {
namespace {

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

// Which blocks a save looks at: one of each group of so many blocks that follow
// each other.
struct Turn {
  int64_t num_turns = 1;
  int64_t turn = 0;  // of this save, from 0
};

// The turns come in an order in which those that follow each other are far
// apart, so that a range of many blocks is met soon.
Turn TurnOf(const ReplicaCheck& check, int64_t number) {
  const int64_t turns = NumTurns(check);
  auto stride = std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(turns) * 0.6180339887));
  while (std::gcd(stride, turns) != 1) ++stride;
  return {.num_turns = turns, .turn = number % turns * stride % turns};
}

// Scatters numbers that follow each other.
uint64_t Mix(uint64_t number) {
  number = (number ^ (number >> 33)) * 0xff51afd7ed558ccd;
  return number ^ (number >> 29);
}

// Of the blocks of a shard those whose turn it is. Where a group begins depends
// on the box, and which block of a group has which turn on the group: there is
// no pattern that values could fit.
uint64_t SampleOf(const Shard& shard, uint64_t seed, const Turn& turn) {
  const size_t num_bytes = NumBytes(shard);
  const auto turns = static_cast<uint64_t>(turn.num_turns);
  const uint64_t num_blocks = (num_bytes + kSampledBytes - 1) / kSampledBytes;
  const uint64_t first = Mix(seed) % turns;  // the place of block 0 in a group
  std::string room;
  uint64_t sum = seed;
  for (uint64_t group = 0; group * turns < first + num_blocks; ++group) {
    const uint64_t at =
        group * turns +
        (Mix(seed + group) + static_cast<uint64_t>(turn.turn)) % turns;
    if (at < first || at - first >= num_blocks) continue;
    const size_t begin = (at - first) * kSampledBytes;
    const size_t length = std::min<size_t>(kSampledBytes, num_bytes - begin);
    sum = Fingerprint(SomeBytes(shard, begin, length, room), sum);
  }
  return sum;
}

}  // namespace

std::vector<ReplicaCheck> FindReplicas(const std::vector<ArrayBoxes>& arrays,
                                       int num_ranks) {
  std::vector<std::vector<WeighedShard>> ranks(static_cast<size_t>(num_ranks));
  std::vector<int64_t> bytes(static_cast<size_t>(num_ranks));
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
        bytes[static_cast<size_t>(holder.rank)] +=
            NumElements(held.box.shape) * array.element_size;
      }
    }
  }
  const int64_t most =
      bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  std::vector<ReplicaCheck> checks;
  for (std::vector<WeighedShard>& shards : ranks) {
    checks.push_back({.ranges = RangesOf(std::move(shards)),
                      .num_boxes = num_boxes,
                      .most_bytes = most});
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

int64_t NumTurns(const ReplicaCheck& check) {
  const int64_t sampled =
      std::clamp(check.num_boxes, kLeastSampled, kMostSampled) * kSampledBytes;
  // No more than TurnOf can multiply.
  return std::clamp<int64_t>(CeilDivide(check.most_bytes, sampled), 1,
                             INT32_MAX);
}

uint64_t SumOfReplicas(const ReplicaCheck& check,
                       const std::vector<Shard>& shards, int64_t number) {
  const bool is_all = number == kEveryByte || NumTurns(check) == 1;
  const Turn turn = is_all ? Turn{} : TurnOf(check, number);
  uint64_t sum = 0;
  for (const ReplicaRange& range : check.ranges) {
    uint64_t of_range = 0;
    for (int32_t i = range.first; i < range.first + range.count; ++i) {
      const Shard& shard = shards[static_cast<size_t>(i)];
      const uint64_t seed = SeedOf(shard);
      of_range += is_all || NumBytes(shard) <= kSampledBytes
                      ? ReplicaFingerprint(shard, seed)
                      : SampleOf(shard, seed, turn);
    }
    sum += of_range * static_cast<uint64_t>(range.weight);
  }
  return sum;
}

void PutReplicaCheck(WireWriter& out, const ReplicaCheck& check) {
  out.Put(check.num_boxes);
  out.Put(check.most_bytes);
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
  check.most_bytes = in.Get<int64_t>();
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
