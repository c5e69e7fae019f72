#include "model/box_index.h"

#include <algorithm>

namespace belay {
namespace {

constexpr size_t kLeafEntries = 4;

}  // namespace

BoxIndex::Bounds BoxIndex::BoundsOf(const Box& box) {
  Bounds bounds;
  for (size_t axis = 0; axis < box.offset.size(); ++axis) {
    bounds.push_back(box.offset[axis]);
    // An overhanging box may reach past 2^63 - 1.
    bounds.push_back(box.offset[axis] +
                     std::min(box.shape[axis], INT64_MAX - box.offset[axis]));
  }
  return bounds;
}

bool BoxIndex::Meet(const Bounds& a, const Bounds& b) {
  for (size_t i = 0; i < a.size(); i += 2) {
    if (a[i] >= b[i + 1] || b[i] >= a[i + 1]) return false;
  }
  return true;
}

BoxIndex::BoxIndex(const std::vector<const Box*>& boxes) {
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!IsEmpty(*boxes[i])) entries_.push_back({i, BoundsOf(*boxes[i])});
  }
  if (!entries_.empty()) Build(0, entries_.size());
}

void BoxIndex::Build(size_t begin, size_t end) {
  const size_t index = nodes_.size();
  Bounds bounds = entries_[begin].bounds;
  for (size_t i = begin + 1; i < end; ++i) {
    for (size_t k = 0; k < bounds.size(); k += 2) {
      bounds[k] = std::min(bounds[k], entries_[i].bounds[k]);
      bounds[k + 1] = std::max(bounds[k + 1], entries_[i].bounds[k + 1]);
    }
  }
  nodes_.push_back({begin, end, 0, std::move(bounds)});
  if (end - begin <= kLeafEntries) return;
  const size_t middle = begin + (end - begin) / 2;
  Halve(begin, middle, end);
  Build(begin, middle);
  nodes_[index].right = nodes_.size();
  Build(middle, end);
}

void BoxIndex::Halve(size_t begin, size_t middle, size_t end) {
  const auto center = [&](const Entry& entry, size_t k) {
    return entry.bounds[k] / 2 + entry.bounds[k + 1] / 2;
  };
  size_t best = 0;
  int64_t widest = 0;
  for (size_t k = 0; k < entries_[begin].bounds.size(); k += 2) {
    int64_t least = INT64_MAX, most = 0;
    for (size_t i = begin; i < end; ++i) {
      least = std::min(least, center(entries_[i], k));
      most = std::max(most, center(entries_[i], k));
    }
    if (most - least > widest) {
      widest = most - least;
      best = k;
    }
  }
  if (widest == 0) return;  // any halves will do
  const auto first = entries_.begin();
  std::nth_element(first + begin, first + middle, first + end,
                   [&](const Entry& a, const Entry& b) {
                     return center(a, best) < center(b, best);
                   });
}

void BoxIndex::Collect(const Bounds& wanted, std::vector<size_t>& found) const {
  std::vector<size_t> open = {0};
  while (!open.empty()) {
    const size_t index = open.back();
    const Node& node = nodes_[index];
    open.pop_back();
    if (!Meet(node.bounds, wanted)) continue;
    if (node.right != 0) {
      open.push_back(node.right);
      open.push_back(index + 1);
      continue;
    }
    for (size_t i = node.begin; i < node.end; ++i) {
      if (Meet(entries_[i].bounds, wanted)) {
        found.push_back(entries_[i].position);
      }
    }
  }
}

std::vector<size_t> BoxIndex::Find(const Box& box) const {
  std::vector<size_t> found;
  if (nodes_.empty() || IsEmpty(box)) return found;
  Collect(BoundsOf(box), found);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace belay
