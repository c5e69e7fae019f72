#include "plan/replica_check.h"

#include <map>
#include <numeric>
#include <tuple>

#include "belay/arrays/flat_buffer.h"
#include "core/integers.h"
#include "plan/shards.h"

namespace belay {
namespace {

constexpr size_t kMaxNamedRanks = 8;

auto SortKey(const ReplicaSum& sum) {
  return std::tie(sum.key, sum.box.offset, sum.box.shape);
}

// Records whether the sums of one box differ.
void Compare(std::span<const ReplicaSum> sums,
             ReplicaDifferences& differences) {
  std::map<uint64_t, std::vector<int32_t>> ranks;
  for (const ReplicaSum& sum : sums) ranks[sum.sum].push_back(sum.rank);
  if (ranks.size() == 1 || ++differences.count > 1) return;
  // The largest group; among equals, the one with the lowest rank.
  const auto most = std::max_element(
      ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
        return std::tuple(a.second.size(), -a.second[0]) <
               std::tuple(b.second.size(), -b.second[0]);
      });
  std::vector<int32_t> others;
  for (const auto& [sum, holders] : ranks) {
    if (sum == most->first) continue;
    others.insert(others.end(), holders.begin(), holders.end());
  }
  std::sort(others.begin(), others.end());
  const Box& box = sums[0].box;
  const std::string place =
      box.shape.empty() ? "" : Cat(", box \"", BoxText(box), "\",");
  differences.first = absl::StrFormat(
      "replicas of \"%s\"%s differ (need the values of %s, found others on %s)",
      sums[0].key, place, NameRanks(most->second, kMaxNamedRanks),
      NameRanks(others, kMaxNamedRanks));
  differences.rank = others[0];
}

}  // namespace

int32_t ChooseComparer(const ReplicaSum& sum, int num_ranks) {
  WireWriter place;
  place.PutText(sum.key);
  place.PutBox(sum.box);
  return static_cast<int32_t>(Fingerprint(place.bytes()) %
                              static_cast<uint64_t>(num_ranks));
}

ReplicaDifferences FindDifferences(std::vector<ReplicaSum> sums) {
  std::sort(sums.begin(), sums.end(),
            [](const ReplicaSum& a, const ReplicaSum& b) {
              return std::tuple_cat(SortKey(a), std::tie(a.rank, a.sum)) <
                     std::tuple_cat(SortKey(b), std::tie(b.rank, b.sum));
            });
  ReplicaDifferences differences;
  for (size_t begin = 0, end = 0; begin < sums.size(); begin = end) {
    while (end < sums.size() && SortKey(sums[end]) == SortKey(sums[begin])) {
      ++end;
    }
    Compare(std::span(sums).subspan(begin, end - begin), differences);
  }
  return differences;
}

// --- Replica check ---

namespace {

// Bytes hashed at a time: a multiple of all element sizes.
constexpr size_t kHashedBytes = size_t{1} << 20;

// Sorts ranges, and joins adjacent ranges with equal weights.
std::vector<ReplicaRange> JoinRanges(std::vector<ReplicaRange> ranges) {
  std::ranges::sort(ranges, {}, &ReplicaRange::first);
  std::vector<ReplicaRange> joined;
  for (const ReplicaRange& one : ranges) {
    if (!joined.empty() && joined.back().weight == one.weight &&
        joined.back().first + joined.back().count == one.first) {
      ++joined.back().count;
    } else {
      joined.push_back(one);
    }
  }
  return joined;
}

// Returns a different seed for each box: values that are swapped between boxes
// must not cancel out.
uint64_t MakeSeed(const Shard& shard) {
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

// Returns bytes of a shard as they are stored. Borrows them from the shard, or
// from `room` if they are not contiguous.
std::string_view SomeBytes(const Shard& shard, size_t begin, size_t length,
                           std::string& room) {
  if (shard.dtype == DType::kString) {
    return std::string_view(*shard.text).substr(begin, length);
  }
  if (!IsStrided(shard)) {
    return {static_cast<const char*>(shard.data) + begin, length};
  }
  // Gather whole elements; the first may begin before `begin`.
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

// A save checks one of every `num_turns` consecutive blocks.
struct Turn {
  int64_t num_turns = 1;
  int64_t turn = 0;  // of this save, from 0
};

// Successive turns are far apart, so that a difference that spans many blocks
// is found soon.
Turn ChooseTurn(const ReplicaCheck& check, int64_t number) {
  const int64_t turns = NumTurns(check);
  auto stride = std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(turns) * 0.6180339887));
  while (std::gcd(stride, turns) != 1) ++stride;
  return {.num_turns = turns, .turn = number % turns * stride % turns};
}

uint64_t Mix(uint64_t number) {
  number = (number ^ (number >> 33)) * 0xff51afd7ed558ccd;
  return number ^ (number >> 29);
}

// Sums the blocks of a shard whose turn it is. The seed of the box determines
// where groups of blocks begin and the order of turns in each group, so regular
// patterns in the values do not escape the samples.
uint64_t SumSample(const Shard& shard, uint64_t seed, const Turn& turn) {
  const size_t num_bytes = NumBytes(shard);
  const auto turns = static_cast<uint64_t>(turn.num_turns);
  const uint64_t num_blocks = (num_bytes + kSampledBytes - 1) / kSampledBytes;
  const uint64_t first = Mix(seed) % turns;  // position of block 0 in its group
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
  std::vector<std::vector<ReplicaRange>> ranks(static_cast<size_t>(num_ranks));
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
            {.first = holder.shard,
             .count = 1,
             .weight = std::exchange(weight, 1)});
        bytes[static_cast<size_t>(holder.rank)] +=
            NumElements(held.box.shape) * array.element_size;
      }
    }
  }
  const int64_t most =
      bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  std::vector<ReplicaCheck> checks;
  for (std::vector<ReplicaRange>& ranges : ranks) {
    checks.push_back({.ranges = JoinRanges(std::move(ranges)),
                      .num_boxes = num_boxes,
                      .most_bytes = most});
  }
  return checks;
}

uint64_t ReplicaFingerprint(const Shard& shard, uint64_t seed) {
  const size_t num_bytes = NumBytes(shard);
  std::string room;
  uint64_t sum = seed;
  // The windows do not depend on the layout in memory.
  for (size_t at = 0; at < num_bytes; at += kHashedBytes) {
    const size_t length = std::min(kHashedBytes, num_bytes - at);
    sum = Fingerprint(SomeBytes(shard, at, length, room), sum);
  }
  return sum;
}

int64_t NumTurns(const ReplicaCheck& check) {
  const int64_t sampled =
      std::clamp(check.num_boxes, kLeastSampled, kMaxSampled) * kSampledBytes;
  // The upper limit keeps a product in ChooseTurn from overflowing.
  return std::clamp<int64_t>(CeilDivide(check.most_bytes, sampled), 1,
                             INT32_MAX);
}

uint64_t SumReplicas(const ReplicaCheck& check,
                     const std::vector<Shard>& shards, int64_t number) {
  const bool is_all = number == kEveryByte || NumTurns(check) == 1;
  const Turn turn = is_all ? Turn{} : ChooseTurn(check, number);
  uint64_t sum = 0;
  for (const ReplicaRange& range : check.ranges) {
    uint64_t of_range = 0;
    for (int32_t i = range.first; i < range.first + range.count; ++i) {
      const Shard& shard = shards[static_cast<size_t>(i)];
      const uint64_t seed = MakeSeed(shard);
      of_range += is_all || NumBytes(shard) <= kSampledBytes
                      ? ReplicaFingerprint(shard, seed)
                      : SumSample(shard, seed, turn);
    }
    sum += of_range * static_cast<uint64_t>(range.weight);
  }
  return sum;
}

}  // namespace belay
