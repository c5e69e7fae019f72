#include "plan/shared_targets.h"

#include <cstring>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "core/box_tiling.h"
#include "core/catch_exceptions.h"
#include "core/program_words.h"
#include "core/status_macros.h"

namespace belay {
namespace {

constexpr int64_t kPortionBytes = int64_t{512} << 10;

// A part of a stream that a rank of a node wants.
struct Needed {
  int64_t position = 0;
  int32_t reader = 0;
  int32_t node = 0;
  int64_t bytes = 0;

  friend auto operator<=>(const Needed&, const Needed&) = default;
};

}  // namespace

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
  std::vector<int32_t> used(nodes.ranks[node].size(), 1);  // slot 0 is its own
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

// --- Shared targets ---

namespace {

struct Target {
  size_t shard;
  std::byte* begin;
  size_t bytes;

  const std::byte* end() const { return begin + bytes; }
};

// Returns whether the elements have no gaps, in any order of the axes.
bool LiesDense(const Shard& shard) {
  if (shard.strides.empty()) return true;
  if (shard.strides.size() != shard.box.shape.size()) return false;
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride and length
  for (size_t axis = 0; axis < shard.strides.size(); ++axis) {
    const int64_t length = shard.box.shape[axis];
    if (length > 1) axes.emplace_back(shard.strides[axis], length);
  }
  std::ranges::sort(axes);
  int64_t dense = 1;
  for (const auto& [stride, length] : axes) {
    if (stride != dense) return false;
    dense *= length;
  }
  return true;
}

// Returns the bytes that a shard occupies; 0 if it is empty or not dense.
size_t DenseBytes(const Shard& shard) {
  if (shard.text != nullptr) return sizeof(std::string);
  if (shard.data == nullptr || shard.dtype == DType::kString ||
      shard.ghosts != nullptr || shard.structs != nullptr) {
    return 0;
  }
  const StatusOr<int64_t> elements = CheckedNumElements(shard.box.shape);
  if (!elements.ok() || *elements <= 0 || !LiesDense(shard)) return 0;
  return static_cast<size_t>(*elements * DTypeSize(shard.dtype));
}

// Returns the targets ordered by address, then as listed.
std::vector<Target> FindTargets(const std::vector<Shard>& shards) {
  std::vector<Target> targets;
  targets.reserve(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    const Shard& shard = shards[i];
    const size_t bytes = DenseBytes(shard);
    void* const begin = shard.text != nullptr ? shard.text : shard.data;
    if (bytes > 0)
      targets.push_back({i, static_cast<std::byte*>(begin), bytes});
  }
  std::ranges::stable_sort(targets, [](const Target& a, const Target& b) {
    return std::less<>()(a.begin, b.begin);
  });
  return targets;
}

}  // namespace

StatusOr<std::vector<SharedTarget>> SetApart(std::vector<Shard>& shards) {
  const std::vector<Target> targets = FindTargets(shards);
  const auto key = [&](const Target& target) -> const std::string& {
    return shards[target.shard].key;
  };
  std::vector<SharedTarget> shared;
  const Target* last = nullptr;   // the target so far that ends last
  const Target* other = nullptr;  // the same among those with another key
  for (const Target& target : targets) {
    const bool is_same = last != nullptr && key(*last) == key(target);
    const Target* const before = is_same ? other : last;
    if (before != nullptr && target.begin < before->end()) {
      const Shard& shard = shards[target.shard];
      SharedTarget one{.shard = target.shard, .text = shard.text};
      one.other = key(*before);
      if (shard.text == nullptr) {
        one.data = target.begin;
        one.common_bytes = static_cast<size_t>(
            std::min(before->end(), target.end()) - target.begin);
        // Bytes that are not read keep the program's values.
        BELAY_RETURN_IF_ERROR(
            CatchBadAlloc(Cat("\"", shard.key, "\", which has the memory of \"",
                              one.other, "\""),
                          [&] {
                            one.read.assign(one.data, one.data + target.bytes);
                            return absl::OkStatus();
                          }));
      }
      shared.push_back(std::move(one));
    }
    if (last == nullptr || last->end() < target.end()) {
      if (!is_same) other = last;
      last = &target;
    } else if (!is_same && (other == nullptr || other->end() < target.end())) {
      other = &target;
    }
  }
  for (SharedTarget& one : shared) {
    Shard& shard = shards[one.shard];
    if (one.text != nullptr) {
      shard.text = &one.read_text;
    } else {
      shard.data = one.read.data();
    }
  }
  return shared;
}

Status PutTogether(const std::vector<SharedTarget>& shared,
                   const std::string& operation, std::vector<Shard>& shards) {
  Status status;
  for (const SharedTarget& one : shared) {
    Shard& shard = shards[one.shard];
    bool is_same = false;
    if (one.text != nullptr) {
      shard.text = one.text;
      is_same = *one.text == one.read_text;
    } else {
      shard.data = one.data;
      is_same = std::memcmp(one.data, one.read.data(), one.common_bytes) == 0;
      std::memcpy(one.data, one.read.data(), one.read.size());
    }
    if (is_same) continue;
    status.Update(absl::FailedPreconditionError(Cat(
        operation, ": \"", one.other, "\" and \"", shard.key,
        "\" have the same memory, and different values are stored for them: ",
        "give one of them its own memory, or ", kLeaveOutWord.InProgram())));
  }
  return status;
}

}  // namespace belay
