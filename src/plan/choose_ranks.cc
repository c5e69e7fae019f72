#include "plan/choose_ranks.h"

#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "belay/arrays/flat_buffer.h"
#include "core/box_tiling.h"
#include "core/status_macros.h"

namespace belay {
namespace {

// Cuts are rounded to 1/kCutsPerShare of a rank's bytes, so that parts are
// whole rows if rows are no larger than that.
constexpr int64_t kCutsPerShare = 256;
constexpr int kMaxPasses = 8;

struct Item {
  int32_t array = 0;
  int64_t element_size = 0;
  const HeldBox* held = nullptr;
  int64_t elements = 0;
  bool can_split = true;
};

// Boxes that the same ranks hold.
struct Group {
  std::vector<int32_t> ranks;  // ascending, distinct
  std::vector<Item> items;
  int64_t bytes = 0;
  std::vector<int64_t> given;  // bytes per rank
  int64_t level = 0;           // total bytes of a rank that is given any
};

// Groups with few holders come first. Groups with many holders then level the
// loads.
std::vector<Group> GroupByHolders(const std::vector<ArrayBoxes>& arrays,
                                  int num_ranks) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<Group> groups;
  std::vector<size_t> alone(num_ranks, kNone);  // the group of each rank alone
  absl::flat_hash_map<std::vector<int32_t>, size_t> shared;
  const auto find = [&](const HeldBox& held) -> Group& {
    const bool is_alone = held.holders.size() == 1;  // most of them
    std::vector<int32_t> ranks;
    if (!is_alone) {
      for (const HeldShard& holder : held.holders) ranks.push_back(holder.rank);
      ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    }
    size_t& position = is_alone
                           ? alone[held.holders[0].rank]
                           : shared.try_emplace(ranks, kNone).first->second;
    if (position == kNone) {
      position = groups.size();
      if (is_alone) ranks = {held.holders[0].rank};
      groups.push_back({.ranks = std::move(ranks)});
    }
    return groups[position];
  };
  for (const ArrayBoxes& array : arrays) {
    for (const HeldBox& held : array.boxes) {
      const int64_t elements = NumElements(held.box.shape);
      Group& group = find(held);
      group.items.push_back(
          {array.array, array.element_size, &held, elements, array.can_split});
      group.bytes += elements * array.element_size;
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) {
                     return a.ranks.size() < b.ranks.size();
                   });
  return groups;
}

// Distributes the bytes of a group so that its least loaded ranks rise to the
// same level.
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

// Levels all groups, in several passes: if groups overlap without being nested,
// an early group must be leveled again after the later ones.
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

// Returns the number of elements between allowed cuts of a box: whole rows of
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

// Returns the allowed cut nearest to byte `at`, as an element number.
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

// Lays the items end to end and cuts them where the share of a rank ends. Adds
// the bytes given to each rank to `load`.
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
  size_t turn = 0;                 // position of the current rank in the group
  int64_t until = group.given[0];  // end of its share, from the item's start
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

// --- Parts to read ---

namespace {

// A box that overlaps more boxes than this is not cut along their borders. Some
// ranks then need only a part of what is read for them.
constexpr size_t kMaxCuts = 16;

// Cuts `boxes` along the borders of `other`.
std::vector<Box> CutAlong(const std::vector<Box>& boxes, const Box& other) {
  std::vector<Box> pieces;
  for (const Box& box : boxes) {
    const std::optional<Box> common = Intersect(box, other);
    if (!common || *common == box) {
      pieces.push_back(box);
      continue;
    }
    pieces.push_back(*common);
    for (Box& part : Subtract(box, other)) pieces.push_back(std::move(part));
  }
  return pieces;
}

// Returns the shards that want the whole part, ascending by rank.
Holders FindHolders(const Box& part, const std::vector<HeldBox>& distinct,
                    const BoxIndex::Positions& near) {
  Holders holders;
  int sources = 0;
  for (size_t i : near) {
    if (!Contains(distinct[i].box, part)) continue;
    holders.insert(holders.end(), distinct[i].holders.begin(),
                   distinct[i].holders.end());
    ++sources;
  }
  if (sources > 1) {
    std::stable_sort(
        holders.begin(), holders.end(),
        [](const HeldShard& a, const HeldShard& b) { return a.rank < b.rank; });
  }
  return holders;
}

// Returns parts that tile the union of the boxes. Unless this takes too many
// cuts, a shard that wants any of a part wants all of it.
std::vector<HeldBox> DisjointParts(const std::vector<HeldBox>& distinct) {
  const BoxIndex index(GetBoxes(distinct));
  std::vector<HeldBox> parts;
  for (size_t k = 0; k < distinct.size(); ++k) {
    const BoxIndex::Positions near = index.Find(distinct[k].box);
    std::vector<Box> own = {distinct[k].box};
    for (size_t i : near) {
      if (i >= k || own.empty()) break;
      own = Without(own, distinct[i].box);
    }
    if (near.size() <= kMaxCuts + 1) {
      for (size_t i : near) {
        if (i > k) own = CutAlong(own, distinct[i].box);
      }
    }
    for (Box& part : own) {
      Holders holders = FindHolders(part, distinct, near);
      parts.push_back({std::move(part), std::move(holders)});
    }
  }
  return parts;
}

// Checks that `parts`, which the primary replica holds, cover all wants.
Status CheckCovered(const WantedArray& array, const std::vector<HeldBox>& parts,
                    int64_t primary) {
  const BoxIndex index(GetBoxes(parts));
  for (const Want& want : array.wants) {
    std::vector<Box> missing = {want.box};
    for (size_t i : index.Find(want.box)) {
      missing = Without(missing, parts[i].box);
    }
    if (missing.empty()) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": box \"%s\", wanted by rank %d as replica %d, is in no "
        "shard of the primary replica %d, which has to read it",
        array.key, BoxText(missing[0]), want.rank, want.replica, primary));
  }
  return absl::OkStatus();
}

Status CheckPrimary(const std::vector<WantedArray>& arrays, int64_t primary) {
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (const WantedArray& array : arrays) {
    for (const Want& want : array.wants) {
      if (want.replica == primary) return absl::OkStatus();
      least = std::min(least, want.replica);
      most = std::max(most, want.replica);
    }
  }
  if (least > most) return absl::OkStatus();  // nothing is wanted
  return absl::InvalidArgumentError(absl::StrFormat(
      "plan \"%s\": no shard has the number of the primary replica (need %d, "
      "found %d to %d)",
      arrays[0].key, primary, least, most));
}

}  // namespace

std::vector<HeldBox> DistinctBoxes(const std::vector<Want>& wants) {
  absl::flat_hash_map<Box, size_t> positions;
  std::vector<HeldBox> distinct;
  for (const Want& want : wants) {
    const auto [it, fresh] = positions.try_emplace(want.box, distinct.size());
    if (fresh) distinct.push_back({want.box, {}});
    distinct[it->second].holders.push_back({want.rank, want.shard, nullptr});
  }
  std::stable_sort(distinct.begin(), distinct.end(),
                   [](const HeldBox& a, const HeldBox& b) {
                     return NumElements(a.box.shape) > NumElements(b.box.shape);
                   });
  return distinct;
}

std::vector<Box> Without(const std::vector<Box>& boxes, const Box& hole) {
  std::vector<Box> rest;
  for (const Box& box : boxes) {
    for (Box& part : Subtract(box, hole)) rest.push_back(std::move(part));
  }
  return rest;
}

StatusOr<std::vector<ArrayBoxes>> PartsToRead(
    const std::vector<WantedArray>& arrays, std::optional<int64_t> primary) {
  if (primary) BELAY_RETURN_IF_ERROR(CheckPrimary(arrays, *primary));
  std::vector<ArrayBoxes> held;
  for (const WantedArray& array : arrays) {
    held.push_back({.array = array.array,
                    .element_size = array.element_size,
                    .boxes = {},
                    .can_split = array.can_split});
    std::vector<HeldBox>& parts = held.back().boxes;
    if (primary) {
      std::vector<Want> readers;
      std::ranges::copy_if(
          array.wants, std::back_inserter(readers),
          [&](const Want& want) { return want.replica == *primary; });
      parts = DisjointParts(DistinctBoxes(readers));
      BELAY_RETURN_IF_ERROR(CheckCovered(array, parts, *primary));
    } else if (array.can_share) {
      parts = DisjointParts(DistinctBoxes(array.wants));
    } else {
      parts.reserve(array.wants.size());
      for (const Want& want : array.wants) {
        parts.push_back({want.box, {{want.rank, want.shard, nullptr}}});
      }
    }
  }
  return held;
}

}  // namespace belay
