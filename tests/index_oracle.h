// What the indexing tests check against: element by element, as Python's rules
// for sequences read. Slow and obvious on purpose; shares no code with the
// library.

#ifndef BELAY_TESTS_INDEX_ORACLE_H_
#define BELAY_TESTS_INDEX_ORACLE_H_

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "belay/arrays/indexing.h"

namespace belay {

// Which elements of the source the result has, and in which shape.
struct Expected {
  Shape shape;
  std::vector<int64_t> elements;  // row-major numbers in the source
};

// The positions that a slice visits: from the start in steps, until the stop is
// reached or passed. A start beyond the near end is moved to that end.
inline std::vector<int64_t> SliceOracle(const Slice& slice, int64_t length) {
  __extension__ using Wide = __int128;
  const Wide step = slice.step.value_or(1);
  const auto from_front = [&](int64_t i) { return Wide{i} + (i < 0) * length; };
  Wide at = slice.start ? from_front(*slice.start) : (step > 0 ? 0 : length);
  if (step > 0 && at < 0) at = 0;
  if (step < 0 && at >= length) at = length - 1;
  std::vector<int64_t> positions;
  for (; at >= 0 && at < length; at += step) {
    if (slice.stop) {
      const Wide stop = from_front(*slice.stop);
      if (step > 0 ? at >= stop : at <= stop) break;
    }
    positions.push_back(static_cast<int64_t>(at));
  }
  return positions;
}

inline void Enumerate(const Shape& shape,
                      const std::vector<std::vector<int64_t>>& positions,
                      size_t axis, int64_t element,
                      std::vector<int64_t>& elements) {
  if (axis == shape.size()) {
    elements.push_back(element);
    return;
  }
  for (int64_t position : positions[axis]) {
    Enumerate(shape, positions, axis + 1, element * shape[axis] + position,
              elements);
  }
}

// Of a valid index without masks.
inline Expected IndexOracle(const Shape& shape, Index index) {
  size_t num_taken = 0;
  bool has_ellipsis = false;
  for (const IndexItem& item : index) {
    num_taken += item.index() == 0 || item.index() == 1;
    has_ellipsis = has_ellipsis || item.index() == 2;
  }
  if (!has_ellipsis) index.push_back(Ellipsis{});
  Expected expected;
  std::vector<std::vector<int64_t>> positions;
  for (const IndexItem& item : index) {
    if (const int64_t* position = std::get_if<int64_t>(&item)) {
      const int64_t length = shape[positions.size()];
      positions.push_back({*position < 0 ? length + *position : *position});
    } else if (const Slice* slice = std::get_if<Slice>(&item)) {
      positions.push_back(SliceOracle(*slice, shape[positions.size()]));
      expected.shape.push_back(positions.back().size());
    } else if (std::holds_alternative<NewAxis>(item)) {
      expected.shape.push_back(1);
    } else {
      for (size_t i = num_taken; i < shape.size(); ++i) {
        positions.push_back(SliceOracle({}, shape[positions.size()]));
        expected.shape.push_back(positions.back().size());
      }
    }
  }
  Enumerate(shape, positions, 0, 0, expected.elements);
  return expected;
}

inline Expected MaskOracle(const Shape& shape, const Tensor& mask) {
  const size_t ndim = mask.shape().size();
  int64_t rest = 1;
  for (size_t axis = ndim; axis < shape.size(); ++axis) rest *= shape[axis];
  Expected expected{.shape = {0}, .elements = {}};
  for (int64_t i = 0; i < mask.num_elements(); ++i) {
    if (!mask.values<bool>()[i]) continue;
    ++expected.shape[0];
    for (int64_t j = 0; j < rest; ++j)
      expected.elements.push_back(i * rest + j);
  }
  expected.shape.insert(expected.shape.end(), shape.begin() + ndim,
                        shape.end());
  return expected;
}

// Draws what to index, and by what.
class IndexDraw {
 public:
  explicit IndexDraw(uint64_t seed) : rng_(seed) {}

  // A number in [low, high].
  int64_t Number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng_() % (high - low + 1));
  }

  Shape AnyShape(int64_t least_ndim) {
    Shape shape(Number(least_ndim, 4));
    for (int64_t& length : shape) {
      length = Number(1, 20) == 1 ? 0 : Number(1, 6);
    }
    return shape;
  }

  Slice AnySlice(int64_t length) {
    Slice slice;
    if (Number(0, 3) > 0) slice.start = Number(-2 * length - 2, 2 * length + 2);
    if (Number(0, 3) > 0) slice.stop = Number(-2 * length - 2, 2 * length + 2);
    if (Number(0, 2) > 0) {
      slice.step = Number(1, length + 2) * (Number(0, 1) == 0 ? -1 : 1);
    }
    if (Number(0, 99) == 0) slice.start = Extreme();
    if (Number(0, 99) == 0) slice.stop = Extreme();
    if (Number(0, 99) == 0) slice.step = Extreme();
    return slice;
  }

  // A valid index without masks.
  Index AnyIndex(const Shape& shape) {
    const int64_t ndim = static_cast<int64_t>(shape.size());
    const int64_t num_taken = Number(0, ndim);
    const bool has_ellipsis = Number(0, 1) == 0;
    const int64_t num_before = has_ellipsis ? Number(0, num_taken) : num_taken;
    Index index;
    for (int64_t i = 0; i < num_taken; ++i) {
      if (has_ellipsis && i == num_before) index.push_back(Ellipsis{});
      MaybeNewAxis(index);
      const int64_t axis = i < num_before ? i : ndim - num_taken + i;
      index.push_back(AnyItem(shape[axis]));
    }
    if (has_ellipsis && num_before == num_taken) index.push_back(Ellipsis{});
    MaybeNewAxis(index);
    return index;
  }

  Tensor AnyMask(const Shape& shape) {
    const size_t ndim = Number(1, shape.size());
    Tensor mask(DType::kBool, Shape(shape.begin(), shape.begin() + ndim));
    const int64_t percent = Number(0, 4) * 25;
    for (bool& value : mask.values<bool>()) value = Number(0, 99) < percent;
    return mask;
  }

 private:
  void MaybeNewAxis(Index& index) {
    if (Number(0, 5) == 0) index.push_back(NewAxis{});
  }

  IndexItem AnyItem(int64_t length) {
    if (length > 0 && Number(0, 2) == 0) return Number(-length, length - 1);
    return AnySlice(length);
  }

  int64_t Extreme() {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    constexpr int64_t kExtremes[] = {kMax, kMax - 1, -kMax, -kMax - 1};
    return kExtremes[Number(0, 3)];
  }

  std::mt19937_64 rng_;
};

}  // namespace belay

#endif  // BELAY_TESTS_INDEX_ORACLE_H_
