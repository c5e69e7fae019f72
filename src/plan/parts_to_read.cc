#include "plan/parts_to_read.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "core/box_tiling.h"
#include "core/status_macros.h"

namespace belay {
namespace {

// The positions of the first want of each distinct box, the largest first, so
// that later ones are often covered whole.
std::vector<size_t> DistinctWants(const std::vector<Want>& wants) {
  absl::flat_hash_set<Box> seen;
  std::vector<std::pair<int64_t, size_t>> by_size;
  for (size_t i = 0; i < wants.size(); ++i) {
    if (!seen.insert(wants[i].box).second) continue;
    by_size.emplace_back(-NumElements(wants[i].box.shape), i);
  }
  std::sort(by_size.begin(), by_size.end());
  std::vector<size_t> distinct;
  for (const auto& [size, i] : by_size) distinct.push_back(i);
  return distinct;
}

// Whether it is seen at once that no two boxes overlap.
bool AreApart(const std::vector<Want>& wants) {
  std::vector<const Box*> boxes;
  boxes.reserve(wants.size());
  for (const Want& want : wants) boxes.push_back(&want.box);
  return BoxIndex(boxes).is_stack();
}

}  // namespace

std::vector<Parts> ChooseCounting(const std::vector<Want>& wants) {
  std::vector<Parts> parts(wants.size());
  if (AreApart(wants)) {
    for (size_t i = 0; i < wants.size(); ++i) {
      parts[i].push_back({wants[i].box, true});
    }
    return parts;
  }
  const std::vector<size_t> distinct = DistinctWants(wants);
  std::vector<const Box*> boxes;
  for (size_t i : distinct) boxes.push_back(&wants[i].box);
  const BoxIndex index(boxes);
  for (size_t k = 0; k < distinct.size(); ++k) {
    std::vector<Box> counting = {*boxes[k]};
    for (size_t earlier : index.Find(*boxes[k])) {
      if (earlier >= k || counting.empty()) break;
      counting = Without(counting, *boxes[earlier]);
    }
    std::vector<Box> rest = {*boxes[k]};
    for (const Box& box : counting) rest = Without(rest, box);
    for (Box& box : counting) {
      parts[distinct[k]].push_back({std::move(box), true});
    }
    for (Box& box : rest) parts[distinct[k]].push_back({std::move(box), false});
  }
  for (size_t i = 0; i < wants.size(); ++i) {
    if (parts[i].empty()) parts[i].push_back({wants[i].box, false});
  }
  return parts;
}

// --- Parts to read ---

namespace {

// A box that overlaps more others than this is not cut along all of them: then
// some ranks copy a part of what was read for them, and that is all.
constexpr size_t kMostCuts = 16;

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

// Everyone who wants all of `part`, by rank.
Holders HoldersOf(const Box& part, const std::vector<HeldBox>& distinct,
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

// Parts that tile the union of the boxes; each is cut so that whoever wants
// some of it wants all of it, as far as that takes few cuts.
std::vector<HeldBox> DisjointParts(const std::vector<HeldBox>& distinct) {
  const BoxIndex index(BoxesOf(distinct));
  std::vector<HeldBox> parts;
  for (size_t k = 0; k < distinct.size(); ++k) {
    const BoxIndex::Positions near = index.Find(distinct[k].box);
    std::vector<Box> own = {distinct[k].box};
    for (size_t i : near) {
      if (i >= k || own.empty()) break;
      own = Without(own, distinct[i].box);
    }
    if (near.size() <= kMostCuts + 1) {
      for (size_t i : near) {
        if (i > k) own = CutAlong(own, distinct[i].box);
      }
    }
    for (Box& part : own) {
      Holders holders = HoldersOf(part, distinct, near);
      parts.push_back({std::move(part), std::move(holders)});
    }
  }
  return parts;
}

// Checks that `parts`, of the shards that may read, cover all that is wanted.
Status CheckCovered(const WantedArray& array, const std::vector<HeldBox>& parts,
                    int64_t primary) {
  const BoxIndex index(BoxesOf(parts));
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

// Checks that any shard has the number.
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

std::vector<Want> OfReplica(const std::vector<Want>& wants, int64_t replica) {
  std::vector<Want> found;
  for (const Want& want : wants) {
    if (want.replica == replica) found.push_back(want);
  }
  return found;
}

std::vector<HeldBox> AsTheyAre(const std::vector<Want>& wants) {
  std::vector<HeldBox> parts;
  parts.reserve(wants.size());
  for (const Want& want : wants) {
    parts.push_back({want.box, {{want.rank, want.shard, nullptr}}});
  }
  return parts;
}

}  // namespace

void BoxesInRows::Add(const Box& box) {
  if (IsEmpty(box) || !in_rows_) return;
  if (box.shape.empty()) {
    in_rows_ = count_ == 0;
  } else {
    in_rows_ = box.offset[0] >= end_;
    end_ = box.offset[0] + box.shape[0];
  }
  ++count_;
}

bool CanShare(const std::vector<Want>& wants) {
  BoxesInRows rows;
  for (const Want& want : wants) {  // ranks mostly come in order
    rows.Add(want.box);
    if (!rows.in_rows()) return true;
  }
  return false;
}

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
    std::vector<HeldBox> parts =
        primary ? DisjointParts(DistinctBoxes(OfReplica(array.wants, *primary)))
        : array.can_share ? DisjointParts(DistinctBoxes(array.wants))
                          : AsTheyAre(array.wants);
    if (primary) BELAY_RETURN_IF_ERROR(CheckCovered(array, parts, *primary));
    held.push_back({.array = array.array,
                    .element_size = array.element_size,
                    .boxes = std::move(parts),
                    .can_split = array.can_split});
  }
  return held;
}

}  // namespace belay
