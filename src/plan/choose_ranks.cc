#include "plan/choose_ranks.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "belay/arrays/flat_buffer.h"

namespace belay {
namespace {

// Cuts are placed to 1/kCutsPerShare of a rank's bytes, so that parts are
// whole rows where rows are that fine.
constexpr int64_t kCutsPerShare = 256;
constexpr int kMaxPasses = 8;

struct Item {
  int32_t array = 0;
  int64_t element_size = 0;
  const HeldBox* held = nullptr;
  int64_t elements = 0;
  bool can_split = true;
};

// Boxes with the same holders.
struct Group {
  std::vector<int32_t> ranks;  // ascending, each once
  std::vector<Item> items;
  int64_t bytes = 0;
  std::vector<int64_t> given;  // bytes per rank
  int64_t level = 0;           // bytes of a rank that got some
};

std::vector<int32_t> RanksOf(const HeldBox& held) {
  std::vector<int32_t> ranks;
  for (const HeldShard& holder : held.holders) {
    if (ranks.empty() || ranks.back() != holder.rank) {
      ranks.push_back(holder.rank);
    }
  }
  return ranks;
}

// Finds the group of those who hold a box.
class Groups {
 public:
  explicit Groups(int num_ranks) : alone_(num_ranks, kNone) {}

  Group& Of(const HeldBox& held) {
    const bool is_alone = held.holders.size() == 1;  // most of them
    if (is_alone) {
      size_t& position = alone_[held.holders[0].rank];
      if (position != kNone) return groups_[position];
      position = groups_.size();
      groups_.push_back({.ranks = {held.holders[0].rank}});
      return groups_.back();
    }
    std::vector<int32_t> ranks = RanksOf(held);
    const auto [it, fresh] = positions_.try_emplace(ranks, groups_.size());
    if (fresh) groups_.push_back({.ranks = std::move(ranks)});
    return groups_[it->second];
  }

  std::vector<Group> Take() { return std::move(groups_); }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  std::vector<Group> groups_;
  std::vector<size_t> alone_;  // the group of each rank alone
  absl::flat_hash_map<std::vector<int32_t>, size_t> positions_;
};

// Groups with few holders come first: those with many level out what is left.
std::vector<Group> GroupByHolders(const std::vector<ArrayBoxes>& arrays,
                                  int num_ranks) {
  Groups found(num_ranks);
  for (const ArrayBoxes& array : arrays) {
    for (const HeldBox& held : array.boxes) {
      const int64_t elements = NumElements(held.box.shape);
      Group& group = found.Of(held);
      group.items.push_back(
          {array.array, array.element_size, &held, elements, array.can_split});
      group.bytes += elements * array.element_size;
    }
  }
  std::vector<Group> groups = found.Take();
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) {
                     return a.ranks.size() < b.ranks.size();
                   });
  return groups;
}

// Gives out the bytes of a group so that the ranks with the least load are
// raised to one level.
void RaiseToLevel(const std::vector<int64_t>& load, Group& group) {
  std::vector<int64_t> loads;
  for (int32_t rank : group.ranks) loads.push_back(load[rank]);
  std::sort(loads.begin(), loads.end());
  int64_t level = loads[0], left = group.bytes, raised = 1;
  for (; raised < static_cast<int64_t>(loads.size()); ++raised) {
    const int64_t step = loads[raised] - level;
    if (step > left / raised) break;
    left -= step * raised;
    level += step;
  }
  group.level = level + (left + raised - 1) / raised;
  group.given.clear();
  for (int32_t rank : group.ranks) {
    group.given.push_back(std::max<int64_t>(0, group.level - load[rank]));
  }
}

void AddGiven(const Group& group, int64_t sign, std::vector<int64_t>& load) {
  for (size_t i = 0; i < group.given.size(); ++i) {
    load[group.ranks[i]] += sign * group.given[i];
  }
}

// Levels all groups. Where groups overlap without being nested, one that came
// early could not know of a later one, so it is levelled again.
void LevelGroups(std::vector<int64_t>& load, std::vector<Group>& groups) {
  int64_t highest = INT64_MAX;
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    for (Group& group : groups) {
      AddGiven(group, -1, load);
      RaiseToLevel(load, group);
      AddGiven(group, +1, load);
    }
    const int64_t now = *std::max_element(load.begin(), load.end());
    if (now > highest - highest / 1024) return;
    highest = now;
  }
}

// The number of elements between places where a box may be cut: whole rows of
// an axis, with at least `grain` bytes.
int64_t CutStep(const Item& item, int64_t grain) {
  if (!item.can_split) return item.elements;
  const Shape& shape = item.held->box.shape;
  int64_t row = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] > grain / item.element_size / row) break;
    row *= shape[axis];
  }
  const int64_t row_bytes = row * item.element_size;
  const int64_t rows = (grain + row_bytes - 1) / row_bytes;
  return std::min(row * rows, item.elements);
}

// The place nearest to byte `at` of an item where it may be cut, as element.
int64_t NearestCut(const Item& item, int64_t at, int64_t step) {
  if (at <= 0) return 0;
  if (at >= item.elements * item.element_size) return item.elements;
  const int64_t cut = (at / item.element_size + step / 2) / step * step;
  return item.elements - cut < (step + 1) / 2 ? item.elements : cut;
}

void AddPieces(const Item& item, int32_t rank, int64_t begin, int64_t end,
               std::vector<WritePiece>& pieces) {
  const auto& holders = item.held->holders;
  const auto holder = std::lower_bound(
      holders.begin(), holders.end(), rank,
      [](const HeldShard& held, int32_t r) { return held.rank < r; });
  for (Box& box : BoxesOfRange(item.held->box, begin, end)) {
    pieces.push_back({item.array, rank, holder->shard, std::move(box)});
  }
}

// Lays the items end to end and cuts them where each rank has what it was
// given. Adds what the ranks really get to `load`.
void DealOut(const Group& group, std::vector<int64_t>& load,
             std::vector<WritePiece>& pieces) {
  if (group.ranks.size() == 1) {
    for (const Item& item : group.items) {
      pieces.push_back({item.array, group.ranks[0], item.held->holders[0].shard,
                        item.held->box});
    }
    load[group.ranks[0]] += group.bytes;
    return;
  }
  const int64_t grain = std::max(kMinSplitBytes, group.level / kCutsPerShare);
  size_t turn = 0;                 // whose turn it is, in group.ranks
  int64_t until = group.given[0];  // where its turn ends, from the item's start
  for (const Item& item : group.items) {
    const int64_t step = CutStep(item, grain);
    for (int64_t begin = 0; begin < item.elements;) {
      const bool last = turn + 1 == group.ranks.size();
      const int64_t end = last ? item.elements : NearestCut(item, until, step);
      if (end > begin) {
        AddPieces(item, group.ranks[turn], begin, end, pieces);
        load[group.ranks[turn]] += (end - begin) * item.element_size;
        begin = end;
      }
      if (begin < item.elements) until += group.given[++turn];
    }
    until -= item.elements * item.element_size;
  }
}

}  // namespace

std::vector<WritePiece> ChooseWriters(const std::vector<ArrayBoxes>& arrays,
                                      int num_ranks) {
  std::vector<int64_t> load(num_ranks, 0);
  std::vector<Group> groups = GroupByHolders(arrays, num_ranks);
  std::vector<WritePiece> pieces;
  if (groups.empty()) return pieces;
  size_t boxes = 0;
  for (const ArrayBoxes& array : arrays) boxes += array.boxes.size();
  pieces.reserve(boxes);  // few are cut
  LevelGroups(load, groups);
  for (Group& group : groups) {
    AddGiven(group, -1, load);
    RaiseToLevel(load, group);
    DealOut(group, load, pieces);
  }
  return pieces;
}

}  // namespace belay
