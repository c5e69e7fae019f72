// Random indices, valid and with every feature, for tests of reads and slice
// assignments.

#ifndef BELAY_MPI_TESTS_RANDOM_INDEX_H_
#define BELAY_MPI_TESTS_RANDOM_INDEX_H_

#include <cstdint>
#include <optional>
#include <random>

#include "belay/arrays/indexing.h"

namespace belay::testing {

inline int64_t Draw(std::mt19937& random, int64_t first, int64_t last) {
  return first + static_cast<int64_t>(random() % (last - first + 1));
}

inline Shape RandomShape(std::mt19937& random) {
  Shape shape = {Draw(random, 0, 14)};
  while (shape.size() < 3 && random() % 3 != 0) {
    shape.push_back(Draw(random, 0, 5));
  }
  return shape;
}

inline Slice RandomSlice(std::mt19937& random, int64_t length) {
  const auto bound = [&]() -> std::optional<int64_t> {
    if (random() % 4 == 0) return std::nullopt;
    return Draw(random, -length - 3, length + 3);
  };
  Slice slice{.start = bound(), .stop = bound(), .step = std::nullopt};
  const int64_t step = Draw(random, -4, 4);
  if (step != 0) slice.step = step;
  return slice;
}

// Items for the first axes and, behind an ellipsis, perhaps for the last ones;
// new axes in between.
inline Index RandomIndex(std::mt19937& random, const Shape& shape) {
  Index index;
  const auto add_items = [&](size_t first, size_t last) {
    for (size_t axis = first; axis < last; ++axis) {
      if (random() % 6 == 0) index.push_back(NewAxis{});
      const int64_t length = shape[axis];
      if (length > 0 && random() % 4 == 0) {
        index.push_back(Draw(random, -length, length - 1));
      } else {
        index.push_back(RandomSlice(random, length));
      }
    }
  };
  const size_t front = random() % (shape.size() + 1);
  add_items(0, front);
  if (random() % 2 == 0) return index;
  index.push_back(Ellipsis{});
  add_items(front + random() % (shape.size() - front + 1), shape.size());
  return index;
}

// A mask of the first axes, at least one.
inline Tensor RandomMask(std::mt19937& random, const Shape& shape) {
  const size_t axes = 1 + random() % shape.size();
  Tensor mask(DType::kBool, Shape(shape.begin(), shape.begin() + axes));
  for (bool& value : mask.values<bool>()) value = random() % 3 == 0;
  return mask;
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_RANDOM_INDEX_H_
