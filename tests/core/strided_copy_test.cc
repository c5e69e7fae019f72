#include "core/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "each_index.h"

namespace belay::strided_copy_test {
namespace {

using testing::ForEachIndex;
using Random = std::mt19937;

int64_t Uniform(int64_t low, int64_t high, Random& random) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// A store of the box in random order and with gaps. `length` becomes the number
// of elements from its first to behind its last one.
Shape RandomStrides(const Box& box, Random& random, int64_t& length) {
  std::vector<size_t> axes(box.shape.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  std::shuffle(axes.begin(), axes.end(), random);
  Shape strides(axes.size());
  length = 1;
  for (const size_t axis : axes) {
    strides[axis] = length + Uniform(0, 2, random);
    length += (box.shape[axis] - 1) * strides[axis];
  }
  return strides;
}

int64_t PlaceOf(const Shape& index, const Box& box, Shape strides) {
  if (strides.empty()) {
    strides.resize(index.size());
    int64_t stride = 1;
    for (size_t axis = index.size(); axis-- > 0;) {
      strides[axis] = stride;
      stride *= box.shape[axis];
    }
  }
  int64_t place = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    place += (index[axis] - box.offset[axis]) * strides[axis];
  }
  return place;
}

TEST(StridedCopyTest, AnyBoxBetweenAnyStores) {
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    Box part, a_box, b_box;
    const int64_t axes = Uniform(0, 4, random);
    for (int64_t axis = 0; axis < axes; ++axis) {
      part.offset.push_back(Uniform(0, 5, random));
      part.shape.push_back(Uniform(1, 4, random));
      for (Box* box : {&a_box, &b_box}) {
        const int64_t before = Uniform(0, 2, random);
        box->offset.push_back(part.offset.back() - before);
        box->shape.push_back(before + part.shape.back() +
                             Uniform(0, 2, random));
      }
    }
    int64_t a_length = NumElements(a_box.shape);
    int64_t b_length = NumElements(b_box.shape);
    Shape a_strides, b_strides;
    if (Uniform(0, 1, random) == 1) {
      a_strides = RandomStrides(a_box, random, a_length);
    }
    if (Uniform(0, 1, random) == 1) {
      b_strides = RandomStrides(b_box, random, b_length);
    }
    const int64_t sizes[] = {1, 2, 4, 8, 16, 3};
    const int64_t size = sizes[Uniform(0, 5, random)];
    std::string a(static_cast<size_t>(a_length * size), '\0');
    for (char& c : a) c = static_cast<char>(Uniform(1, 100, random));
    std::string b(static_cast<size_t>(b_length * size), '\0');
    std::string expected = b;
    ForEachIndex(part, [&](const Shape& index) {
      std::memcpy(expected.data() + PlaceOf(index, b_box, b_strides) * size,
                  a.data() + PlaceOf(index, a_box, a_strides) * size,
                  static_cast<size_t>(size));
    });
    CopyElements(part, a.data(), {a_box, a_strides}, b.data(),
                 {b_box, b_strides}, size);
    ASSERT_EQ(b, expected) << round;
  }
}

TEST(StridedCopyTest, NothingOfAnEmptyBox) {
  const Box box = {{0, 0}, {0, 3}};
  const Shape dense;
  char target = 'x';
  CopyElements(box, nullptr, {box, dense}, &target, {box, dense}, 1);
  EXPECT_EQ(target, 'x');
}

// Axes that lie side by side in both stores are one run.
TEST(StridedCopyTest, RowsThatTouchAreOneRun) {
  const Box box = {{0, 0}, {10, 20}};
  const Shape strides = {20, 1}, dense;
  int calls = 0;
  ForEachRunSeries(box, {box, strides}, {box, dense},
                   [&](const RunSeries& series) {
                     ++calls;
                     EXPECT_EQ(series.count, 1);
                     EXPECT_EQ(series.length, 200);
                   });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace belay::strided_copy_test
