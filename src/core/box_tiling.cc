#include "core/box_tiling.h"

#include <algorithm>

#include "absl/numeric/int128.h"
#include "core/process.h"

namespace belay {
namespace {

// Limits the search, as overlapping boxes may cut each other into very many
// parts.
constexpr size_t kMaxLooks = size_t{1} << 22;

// A part of the whole, and the boxes that overlap it.
struct OpenPart {
  Box box;
  std::vector<const Box*> boxes;
};

OpenPart MakePart(Box box, const std::vector<const Box*>& boxes) {
  OpenPart part{std::move(box), {}};
  for (const Box* other : boxes) {
    if (Intersect(*other, part.box)) part.boxes.push_back(other);
  }
  return part;
}

// Requires boxes that do not overlap each other.
bool IsCovered(const OpenPart& part) {
  int64_t covered = 0;
  for (const Box* box : part.boxes) {
    covered += NumElements(Intersect(*box, part.box)->shape);
  }
  return covered == NumElements(part.box.shape);
}

// Arithmetic modulo the prime 2^61 - 1.
constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;

uint64_t Reduce(absl::uint128 value) {
  value = (value & kPrime) + (value >> 61);
  value = (value & kPrime) + (value >> 61);
  const auto low = static_cast<uint64_t>(value);
  return low >= kPrime ? low - kPrime : low;
}

// Gives each place on each axis an unpredictable number.
class SecretNumbers {
 public:
  uint64_t ForPlace(size_t axis, int64_t place) const {
    const uint64_t mixed =
        Mix(Mix(static_cast<uint64_t>(place) ^ first_) + second_ + axis);
    return Reduce(Mix(mixed ^ third_));
  }

  // Returns the product over the axes of the difference between end and begin.
  // The values of boxes that tile a shape add up to the shape's value, since
  // all inner places cancel. Otherwise the sums differ as polynomials of degree
  // at most 32 in the numbers of their places, and so almost surely in value.
  uint64_t ForBox(const Box& box) const {
    uint64_t product = 1;
    for (size_t axis = 0; axis < box.offset.size(); ++axis) {
      const int64_t begin = box.offset[axis];
      const uint64_t more = ForPlace(axis, begin + box.shape[axis]) + kPrime -
                            ForPlace(axis, begin);
      product = Reduce(absl::uint128(product) * Reduce(more));
    }
    return product;
  }

 private:
  // The finalizer of splitmix64.
  static uint64_t Mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }

  const uint64_t first_ = NewNonce();
  const uint64_t second_ = NewNonce();
  const uint64_t third_ = NewNonce();
};

// Returns the middle along the axis at position `k`. Halves first, as the sum
// could overflow.
template <typename Bounds>
int64_t Center(const Bounds& bounds, size_t k) {
  return bounds[k] / 2 + bounds[k + 1] / 2;
}

}  // namespace

std::vector<std::pair<size_t, size_t>> FindOverlaps(
    const std::vector<const Box*>& boxes, size_t most) {
  std::vector<std::pair<size_t, size_t>> pairs;
  if (boxes.size() < 2) return pairs;
  const BoxIndex index(boxes);
  std::vector<bool> named(boxes.size(), false);
  for (size_t i = 0; i < boxes.size() && pairs.size() < most; ++i) {
    if (named[i]) continue;
    for (size_t j : index.Find(*boxes[i])) {
      if (j == i) continue;
      pairs.emplace_back(i, j);
      named[j] = true;
      break;
    }
  }
  return pairs;
}

std::optional<Box> FindGap(const Box& whole,
                           const std::vector<const Box*>& boxes,
                           bool disjoint) {
  if (IsEmpty(whole)) return std::nullopt;
  std::vector<OpenPart> open = {MakePart(whole, boxes)};
  size_t looks = 0;
  while (!open.empty() && (disjoint || looks < kMaxLooks)) {
    const OpenPart part = std::move(open.back());
    open.pop_back();
    if (part.boxes.empty()) return part.box;
    if (disjoint && IsCovered(part)) continue;
    // If boxes come in order, the middle one halves them.
    const Box& taken = *part.boxes[part.boxes.size() / 2];
    for (Box& rest : Subtract(part.box, taken)) {
      open.push_back(MakePart(std::move(rest), part.boxes));
      looks += part.boxes.size();
    }
  }
  return std::nullopt;
}

bool IsTiling(const Shape& shape, const std::vector<const Box*>& boxes) {
  if (boxes.size() == 1) {
    return IsEmpty(*boxes[0]) ? IsEmpty(WholeBox(shape))
                              : boxes[0]->shape == shape;
  }
  static const SecretNumbers secret;
  uint64_t sum = 0;
  for (const Box* box : boxes) sum = Reduce(sum + secret.ForBox(*box));
  return sum == secret.ForBox(WholeBox(shape));
}

BoxOwners::BoxOwners(std::vector<const Box*> boxes) : boxes_(std::move(boxes)) {
  if (boxes_.size() == 1) return;  // nothing to choose from
  for (size_t i = 0; i < boxes_.size(); ++i) same_.emplace(*boxes_[i], i);
}

std::optional<size_t> BoxOwners::Find(const Box& box) {
  size_t owner = 0;
  if (boxes_.size() != 1) {
    // Usually `box` equals one of the boxes.
    if (const auto it = same_.find(box); it != same_.end()) return it->second;
    if (!index_.has_value()) index_.emplace(boxes_);
    const BoxIndex::Positions found = index_->Find(box);
    // A box inside one of a set of disjoint boxes overlaps no other.
    if (found.size() != 1) return std::nullopt;
    owner = found[0];
  }
  if (!Contains(*boxes_[owner], box)) return std::nullopt;
  return owner;
}

// --- Box index ---

BoxIndex::Bounds BoxIndex::GetBounds(const Box& box) {
  Bounds bounds(2 * box.offset.size());
  for (size_t axis = 0; axis < box.offset.size(); ++axis) {
    bounds[2 * axis] = box.offset[axis];
    // An overhanging box may reach past 2^63 - 1.
    bounds[2 * axis + 1] =
        box.offset[axis] +
        std::min(box.shape[axis], INT64_MAX - box.offset[axis]);
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
  entries_.reserve(boxes.size());
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!IsEmpty(*boxes[i])) entries_.push_back({i, GetBounds(*boxes[i])});
  }
  if (!entries_.empty() && !Stack()) Build(0, entries_.size());
}

size_t BoxIndex::WidestAxis(size_t begin, size_t end) const {
  size_t best = 0;
  int64_t widest = 0;
  for (size_t k = 0; k < entries_[begin].bounds.size(); k += 2) {
    int64_t least = INT64_MAX, most = 0;
    for (size_t i = begin; i < end; ++i) {
      least = std::min(least, Center(entries_[i].bounds, k));
      most = std::max(most, Center(entries_[i].bounds, k));
    }
    if (most - least > widest) {
      widest = most - least;
      best = k;
    }
  }
  return best;
}

bool BoxIndex::Stack() {
  axis_ = WidestAxis(0, entries_.size());
  // All scalars overlap.
  if (axis_ >= entries_[0].bounds.size()) return entries_.size() == 1;
  const auto is_before = [&](const Entry& a, const Entry& b) {
    return a.bounds[axis_] < b.bounds[axis_];
  };
  if (!std::is_sorted(entries_.begin(), entries_.end(), is_before)) {
    std::stable_sort(entries_.begin(), entries_.end(), is_before);
  }
  for (size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i].bounds[axis_] < entries_[i - 1].bounds[axis_ + 1]) {
      return false;
    }
  }
  begins_.reserve(entries_.size());
  ends_.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    begins_.push_back(entry.bounds[axis_]);
    ends_.push_back(entry.bounds[axis_ + 1]);
  }
  if (AreAlike()) {  // keep only one entry
    positions_.reserve(entries_.size());
    for (const Entry& entry : entries_) positions_.push_back(entry.position);
    entries_ = std::vector<Entry>(1, entries_[0]);
  }
  return true;
}

bool BoxIndex::AreAlike() const {
  const Bounds& first = entries_[0].bounds;
  return std::all_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    for (size_t k = 0; k < first.size(); ++k) {
      if (k == axis_ || k == axis_ + 1) continue;
      if (entry.bounds[k] != first[k]) return false;
    }
    return true;
  });
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
  constexpr size_t kLeafEntries = 4;
  if (end - begin <= kLeafEntries) return;
  const size_t middle = begin + (end - begin) / 2;
  const size_t axis = WidestAxis(begin, end);
  if (axis < entries_[begin].bounds.size()) {  // false for scalars
    const auto first = entries_.begin();
    std::nth_element(first + begin, first + middle, first + end,
                     [&](const Entry& a, const Entry& b) {
                       return Center(a.bounds, axis) < Center(b.bounds, axis);
                     });
  }
  Build(begin, middle);
  nodes_[index].right = nodes_.size();
  Build(middle, end);
}

void BoxIndex::CollectFromStack(const Box& wanted, Positions& found) const {
  if (ends_.empty()) {  // a single scalar
    found.push_back(entries_[0].position);
    return;
  }
  const size_t axis = axis_ / 2;
  const int64_t begin = wanted.offset[axis];
  const int64_t end = begin + std::min(wanted.shape[axis], INT64_MAX - begin);
  const auto meets_along_others = [&](const Entry& entry) {
    for (size_t i = 0; i < wanted.offset.size(); ++i) {
      if (i == axis) continue;
      if (wanted.offset[i] >= entry.bounds[2 * i + 1]) return false;
      if (entry.bounds[2 * i] - wanted.offset[i] >= wanted.shape[i]) {
        return false;
      }
    }
    return true;
  };
  const bool alike = !positions_.empty();
  if (alike && !meets_along_others(entries_[0])) return;
  size_t i =
      std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin();
  for (; i < ends_.size() && begins_[i] < end; ++i) {
    if (alike) {
      found.push_back(positions_[i]);
    } else if (meets_along_others(entries_[i])) {
      found.push_back(entries_[i].position);
    }
  }
}

void BoxIndex::CollectFromTree(const Bounds& wanted, Positions& found) const {
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

BoxIndex::Positions BoxIndex::Find(const Box& box) const {
  Positions found;
  if (entries_.empty() || IsEmpty(box)) return found;
  if (is_stack()) {
    CollectFromStack(box, found);
  } else {
    CollectFromTree(GetBounds(box), found);
  }
  if (!std::is_sorted(found.begin(), found.end())) {
    std::sort(found.begin(), found.end());
  }
  return found;
}

}  // namespace belay
