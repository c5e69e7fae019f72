#include "geometry/box_tiling.h"

#include "absl/numeric/int128.h"
#include "base/process/nonce.h"

namespace belay {
namespace {

// Looks at a box. Overlapping boxes may cut each other to very many parts.
constexpr size_t kMaxLooks = size_t{1} << 22;

// A part of the whole, and the boxes that meet it.
struct OpenPart {
  Box box;
  std::vector<const Box*> boxes;
};

OpenPart PartOf(Box box, const std::vector<const Box*>& boxes) {
  OpenPart part{std::move(box), {}};
  for (const Box* other : boxes) {
    if (Intersect(*other, part.box)) part.boxes.push_back(other);
  }
  return part;
}

// Only for boxes that do not overlap each other.
bool IsCovered(const OpenPart& part) {
  int64_t covered = 0;
  for (const Box* box : part.boxes) {
    covered += NumElements(Intersect(*box, part.box)->shape);
  }
  return covered == NumElements(part.box.shape);
}

// Numbers modulo the prime 2^61 - 1.
constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;

uint64_t Reduce(absl::uint128 value) {
  value = (value & kPrime) + (value >> 61);
  value = (value & kPrime) + (value >> 61);
  const auto low = static_cast<uint64_t>(value);
  return low >= kPrime ? low - kPrime : low;
}

// Gives each place on each axis a number that cannot be foreseen.
class SecretNumbers {
 public:
  uint64_t Of(size_t axis, int64_t place) const {
    const uint64_t mixed =
        Mix(Mix(static_cast<uint64_t>(place) ^ first_) + second_ + axis);
    return Reduce(Mix(mixed ^ third_));
  }

  // A sum of products: a box stands for the product over its axes of what its
  // end has more than its begin. Boxes that tile a shape add up to the shape,
  // since all places inside cancel. Others differ as polynomials in the numbers
  // of their places, of a degree of at most 32, and so almost surely in value.
  uint64_t OfBox(const Box& box) const {
    uint64_t product = 1;
    for (size_t axis = 0; axis < box.offset.size(); ++axis) {
      const int64_t begin = box.offset[axis];
      const uint64_t more =
          Of(axis, begin + box.shape[axis]) + kPrime - Of(axis, begin);
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
  std::vector<OpenPart> open = {PartOf(whole, boxes)};
  size_t looks = 0;
  while (!open.empty() && (disjoint || looks < kMaxLooks)) {
    const OpenPart part = std::move(open.back());
    open.pop_back();
    if (part.boxes.empty()) return part.box;
    if (disjoint && IsCovered(part)) continue;
    // One from the middle: boxes mostly come in order.
    const Box& taken = *part.boxes[part.boxes.size() / 2];
    for (Box& rest : Subtract(part.box, taken)) {
      open.push_back(PartOf(std::move(rest), part.boxes));
      looks += part.boxes.size();
    }
  }
  return std::nullopt;
}

bool IsTiling(const Shape& shape, const std::vector<const Box*>& boxes) {
  if (boxes.size() == 1)
    return IsEmpty(*boxes[0]) ? IsEmpty(WholeBox(shape))
                              : boxes[0]->shape == shape;
  static const SecretNumbers secret;
  uint64_t sum = 0;
  for (const Box* box : boxes) sum = Reduce(sum + secret.OfBox(*box));
  return sum == secret.OfBox(WholeBox(shape));
}

BoxOwners::BoxOwners(std::vector<const Box*> boxes) : boxes_(std::move(boxes)) {
  if (boxes_.size() == 1) return;  // nothing to choose from
  for (size_t i = 0; i < boxes_.size(); ++i) same_.emplace(*boxes_[i], i);
}

std::optional<size_t> BoxOwners::Find(const Box& box) {
  size_t owner = 0;
  if (boxes_.size() != 1) {
    // Most boxes are whole ones.
    if (const auto it = same_.find(box); it != same_.end()) return it->second;
    if (!index_.has_value()) index_.emplace(boxes_);
    const BoxIndex::Positions found = index_->Find(box);
    // A box in one of disjoint boxes meets no other.
    if (found.size() != 1) return std::nullopt;
    owner = found[0];
  }
  if (!Contains(*boxes_[owner], box)) return std::nullopt;
  return owner;
}

}  // namespace belay
