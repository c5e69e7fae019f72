#include "model/counting_parts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "model/box_index.h"

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

}  // namespace

std::vector<std::vector<Part>> ChooseCounting(const std::vector<Want>& wants) {
  const std::vector<size_t> distinct = DistinctWants(wants);
  std::vector<const Box*> boxes;
  for (size_t i : distinct) boxes.push_back(&wants[i].box);
  const BoxIndex index(boxes);
  std::vector<std::vector<Part>> parts(wants.size());
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
