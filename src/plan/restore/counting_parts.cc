#include "plan/restore/counting_parts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "geometry/box_index.h"

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

}  // namespace belay
