#include "plan/restore/whole_rows.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "geometry/runs.h"

namespace belay {
namespace {

// Whether two boxes differ along `axis` only, or the order of those that do
// not: -1, 0 or 1.
int CompareBut(size_t axis, const Box& a, const Box& b) {
  for (size_t i = 0; i < a.offset.size(); ++i) {
    if (i == axis) continue;
    const auto mine = std::tie(a.offset[i], a.shape[i]);
    const auto its = std::tie(b.offset[i], b.shape[i]);
    if (mine != its) return mine < its ? -1 : 1;
  }
  return 0;
}

// Whether `b` begins where `a` ends.
bool IsNext(size_t axis, const Box& a, const Box& b) {
  return CompareBut(axis, a, b) == 0 &&
         a.offset[axis] + a.shape[axis] == b.offset[axis];
}

void JoinAlong(size_t axis, std::vector<HeldBox>& boxes) {
  std::sort(
      boxes.begin(), boxes.end(), [&](const HeldBox& a, const HeldBox& b) {
        const int order = CompareBut(axis, a.box, b.box);
        return order != 0 ? order < 0 : a.box.offset[axis] < b.box.offset[axis];
      });
  size_t last = 0;
  for (size_t i = 1; i < boxes.size(); ++i) {
    if (!IsNext(axis, boxes[last].box, boxes[i].box)) {
      if (++last != i) boxes[last] = std::move(boxes[i]);
      continue;
    }
    HeldBox& joined = boxes[last];
    joined.box.shape[axis] += boxes[i].box.shape[axis];
    joined.holders.insert(joined.holders.end(), boxes[i].holders.begin(),
                          boxes[i].holders.end());
  }
  boxes.resize(last + 1);
}

// Whether all boxes have the same place along all axes but the first: nothing
// lies side by side.
bool AreRows(const std::vector<HeldBox>& boxes) {
  const Box& first = boxes[0].box;
  return std::all_of(boxes.begin(), boxes.end(), [&](const HeldBox& held) {
    return std::equal(first.offset.begin() + 1, first.offset.end(),
                      held.box.offset.begin() + 1) &&
           std::equal(first.shape.begin() + 1, first.shape.end(),
                      held.box.shape.begin() + 1);
  });
}

// Runs of files that hold the boxes.
int64_t CountRequests(const ArrayDatasets& stored, int64_t element_size,
                      const std::vector<HeldBox>& boxes) {
  int64_t requests = 0;
  for (const HeldBox& held : boxes) {
    stored.ForEachPart(held.box, element_size, [&](const ReadOrder& order) {
      requests += CountRuns(order.box, order.box, order.extent.box);
    });
  }
  return requests;
}

int64_t CountElements(const std::vector<HeldBox>& boxes) {
  int64_t elements = 0;
  for (const HeldBox& held : boxes) elements += NumElements(held.box.shape);
  return elements;
}

}  // namespace

std::vector<HeldBox> JoinSideBySide(std::vector<HeldBox> boxes) {
  const size_t before = boxes.size();
  if (before < 2) return boxes;
  for (size_t axis = boxes[0].box.shape.size(); axis-- > 1;) {
    JoinAlong(axis, boxes);
  }
  if (boxes.size() == before) return boxes;
  for (HeldBox& held : boxes) {
    std::stable_sort(
        held.holders.begin(), held.holders.end(),
        [](const HeldShard& a, const HeldShard& b) { return a.rank < b.rank; });
  }
  return boxes;
}

int64_t JoinIntoRows(const ArrayDatasets& stored, int64_t element_size,
                     std::vector<HeldBox>& boxes) {
  if (boxes.size() < 2 || boxes[0].box.shape.size() < 2 || AreRows(boxes)) {
    return 0;
  }
  std::vector<HeldBox> joined = JoinSideBySide(boxes);
  if (joined.size() == boxes.size()) return 0;
  const int64_t saved = CountRequests(stored, element_size, boxes) -
                        CountRequests(stored, element_size, joined);
  const int64_t bytes = CountElements(boxes) * element_size;
  if (saved <= 0 || bytes / kBytesPerRequest > saved) return 0;
  boxes = std::move(joined);
  return saved;
}

}  // namespace belay
