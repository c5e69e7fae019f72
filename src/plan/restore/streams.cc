#include "plan/restore/streams.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "geometry/box_index.h"

namespace belay {
namespace {

constexpr int64_t kPortionBytes = int64_t{512} << 10;

int64_t Aligned(int64_t bytes) {
  return (bytes + kStreamAlignment - 1) / kStreamAlignment * kStreamAlignment;
}

// Who wants what of one array.
struct ArrayWants {
  explicit ArrayWants(const WantedArray& array)
      : element_size(array.element_size),
        can_share(array.can_share),
        distinct(can_share ? DistinctBoxes(array.wants)
                           : std::vector<HeldBox>()),
        index(BoxesOf(distinct)) {}

  int64_t element_size;
  bool can_share;
  std::vector<HeldBox> distinct;
  BoxIndex index;
};

// Adds one read to the stream of its reader if others want some of it.
void AddRead(const ArrayWants& wants, int32_t reader, ReadOrder& order,
             int64_t& stream_bytes, RestorePlan& plan) {
  if (!wants.can_share) return;
  const BoxIndex::Positions near = wants.index.Find(order.box);
  if (near.size() == 1 && wants.distinct[near[0]].holders.size() == 1) {
    const HeldShard& alone = wants.distinct[near[0]].holders[0];
    if (alone.rank == reader) {
      order.shard = alone.shard;  // rows may be read for several
      return;
    }
  }
  const int64_t bytes = NumElements(order.box.shape) * wants.element_size;
  order.position = stream_bytes;
  stream_bytes += Aligned(bytes);
  for (size_t i : near) {
    const HeldBox& held = wants.distinct[i];
    const int64_t wanted =
        NumElements(Intersect(held.box, order.box)->shape) * wants.element_size;
    for (const HeldShard& holder : held.holders) {
      if (holder.rank != reader) plan.delivered_bytes += wanted;
      plan.ranks[holder.rank].deliveries.push_back({.shard = holder.shard,
                                                    .reader = reader,
                                                    .position = order.position,
                                                    .bytes = bytes,
                                                    .box = order.box});
    }
  }
}

// The array of each shard of each rank that is not empty, as number in
// `arrays`.
std::vector<absl::flat_hash_map<int32_t, size_t>> ArraysOfShards(
    const std::vector<WantedArray>& arrays, size_t num_ranks) {
  std::vector<absl::flat_hash_map<int32_t, size_t>> found(num_ranks);
  for (size_t i = 0; i < arrays.size(); ++i) {
    for (const Want& want : arrays[i].wants) found[want.rank][want.shard] = i;
  }
  return found;
}

// A part of a stream that some rank of a node wants.
struct Needed {
  int64_t position = 0;
  int32_t reader = 0;
  int32_t node = 0;
  int64_t bytes = 0;

  friend auto operator<=>(const Needed&, const Needed&) = default;
};

}  // namespace

void AddDeliveries(const std::vector<WantedArray>& arrays, RestorePlan& plan) {
  std::vector<ArrayWants> wants;
  wants.reserve(arrays.size());
  for (const WantedArray& array : arrays) wants.emplace_back(array);
  const auto array_of = ArraysOfShards(arrays, plan.ranks.size());
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    int64_t stream_bytes = 0;
    for (ReadOrder& order : plan.ranks[rank].orders) {
      AddRead(wants[array_of[rank].at(order.shard)], static_cast<int32_t>(rank),
              order, stream_bytes, plan);
    }
    plan.stream_bytes = std::max(plan.stream_bytes, stream_bytes);
  }
  for (RankReads& reads : plan.ranks) {
    std::stable_sort(reads.deliveries.begin(), reads.deliveries.end(),
                     [](const Delivery& a, const Delivery& b) {
                       return a.position < b.position;
                     });
  }
}

Nodes GroupByNode(std::span<const int32_t> numbers) {
  Nodes nodes;
  absl::flat_hash_map<int32_t, int32_t> positions;
  for (size_t rank = 0; rank < numbers.size(); ++rank) {
    const auto [it, fresh] = positions.try_emplace(
        numbers[rank], static_cast<int32_t>(nodes.ranks.size()));
    if (fresh) nodes.ranks.emplace_back();
    std::vector<int32_t>& ranks = nodes.ranks[it->second];
    nodes.node.push_back(it->second);
    nodes.place.push_back(static_cast<int32_t>(ranks.size()));
    ranks.push_back(static_cast<int32_t>(rank));
  }
  return nodes;
}

int32_t Carrier(const Nodes& nodes, int32_t reader, int32_t node) {
  if (nodes.node[reader] == node) return reader;
  const std::vector<int32_t>& ranks = nodes.ranks[node];
  return ranks[nodes.place[reader] % ranks.size()];
}

std::vector<int32_t> SlotsOnNode(const Nodes& nodes, int32_t node) {
  std::vector<int32_t> used(nodes.ranks[node].size(), 1);  // its own
  std::vector<int32_t> slots(nodes.node.size(), 0);
  for (size_t reader = 0; reader < slots.size(); ++reader) {
    if (nodes.node[reader] == node) continue;
    const int32_t carrier = Carrier(nodes, static_cast<int32_t>(reader), node);
    slots[reader] = used[nodes.place[carrier]]++;
  }
  return slots;
}

int32_t MostSlots(const Nodes& nodes) {
  int32_t most = 1;
  for (size_t node = 0; node < nodes.ranks.size(); ++node) {
    for (int32_t slot : SlotsOnNode(nodes, static_cast<int32_t>(node))) {
      most = std::max(most, slot + 1);
    }
  }
  return most;
}

int64_t PortionBytes(int32_t slots, int64_t most_bytes) {
  const int64_t fits = most_bytes / (2 * slots) / kStreamAlignment;
  return std::clamp(fits * kStreamAlignment, kStreamAlignment, kPortionBytes);
}

std::vector<RankTransits> PlanTransits(const RestorePlan& plan,
                                       const Nodes& nodes) {
  std::vector<RankTransits> transits(plan.ranks.size());
  if (nodes.ranks.size() == 1) return transits;
  std::vector<Needed> needed;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (const Delivery& delivery : plan.ranks[rank].deliveries) {
      if (nodes.node[delivery.reader] == nodes.node[rank]) continue;
      needed.push_back({delivery.position, delivery.reader, nodes.node[rank],
                        delivery.bytes});
    }
  }
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  for (const Needed& part : needed) {
    const int32_t carrier = Carrier(nodes, part.reader, part.node);
    transits[part.reader].sends.push_back({carrier, part.position, part.bytes});
    transits[carrier].receives.push_back(
        {part.reader, part.position, part.bytes});
  }
  return transits;
}

}  // namespace belay
