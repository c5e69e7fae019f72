#include "block_boxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace belay::tools::block_boxes_test {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kBlock = int64_t{1} << 20;
constexpr int64_t kMuch = int64_t{1} << 40;

TEST(BlockBoxesTest, ASmallArrayIsOneBlock) {
  const BlockBoxes found = BoxesOfBlocks({6, 10}, 4, {{{4, 2}, {1, 3}}}, kMuch);
  EXPECT_THAT(found.boxes, ElementsAre(Box{{0, 0}, {6, 10}}));
  EXPECT_TRUE(found.all);
}

TEST(BlockBoxesTest, BlocksWithinARow) {
  // Rows of 4 blocks; elements of the second and of the last one.
  const Shape shape = {3, kBlock};
  const BlockBoxes found = BoxesOfBlocks(
      shape, 4, {{{1, kBlock / 4 + 7}, {1, 1}}, {{2, kBlock - 1}, {1, 1}}},
      kMuch);
  EXPECT_THAT(found.boxes,
              ElementsAre(Box{{1, kBlock / 4}, {1, kBlock / 4}},
                          Box{{2, 3 * kBlock / 4}, {1, kBlock / 4}}));
}

TEST(BlockBoxesTest, ABlockOverTheEndOfARow) {
  const int64_t columns = kBlock + 1;
  const Shape shape = {3, columns};
  const Box part = {{1, 0}, {1, 1}};  // in the second block, which row 0 begins
  EXPECT_THAT(BoxesOfBlocks(shape, 1, {part}, kMuch).boxes,
              ElementsAre(Box{{0, 0}, {2, columns}}));
  const BlockBoxes limited = BoxesOfBlocks(shape, 1, {part}, kBlock);
  EXPECT_THAT(limited.boxes, ElementsAre());
  EXPECT_FALSE(limited.all);
}

TEST(BlockBoxesTest, NothingAndScalars) {
  EXPECT_THAT(BoxesOfBlocks({0, 3}, 8, {{{0, 0}, {0, 3}}}, kMuch).boxes,
              ElementsAre());
  EXPECT_THAT(BoxesOfBlocks({}, 8, {Box{}}, kMuch).boxes, ElementsAre(Box{}));
}

TEST(BlockBoxesTest, NoMoreBytesThanAllowed) {
  const Shape shape = {64, kBlock};
  const std::vector<Box> part = {{{0, 0}, {64, 1}}};
  const BlockBoxes found = BoxesOfBlocks(shape, 1, part, 10 * kBlock);
  EXPECT_EQ(found.boxes.size(), 10);
  EXPECT_FALSE(found.all);
}

bool Holds(const Box& box, const Shape& index) {
  for (size_t axis = 0; axis < index.size(); ++axis) {
    const int64_t at = index[axis] - box.offset[axis];
    if (at < 0 || at >= box.shape[axis]) return false;
  }
  return true;
}

// Every element of every block that a part touches is in one box.
TEST(BlockBoxesTest, EveryBlockIsInOneBox) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    // Elements of 64 KiB, so 16 to a block.
    const int64_t size = kBlock / 16;
    Shape shape(1 + random() % 3, 0);
    Box part;
    for (int64_t& length : shape) {
      length = 1 + static_cast<int64_t>(random() % 9);
      part.offset.push_back(static_cast<int64_t>(random()) % length);
      part.shape.push_back(1 + static_cast<int64_t>(random()) %
                                   (length - part.offset.back()));
    }
    const BlockBoxes found = BoxesOfBlocks(shape, size, {part}, kMuch);
    ASSERT_TRUE(found.all);
    const int64_t total = NumElements(shape);
    std::set<int64_t> touched;
    std::vector<Shape> indices;
    for (int64_t i = 0; i < total; ++i) {
      Shape index(shape.size(), 0);
      int64_t rest = i;
      for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
        index[axis] = rest % shape[axis];
      }
      if (Holds(part, index)) touched.insert(i / 16);
      indices.push_back(std::move(index));
    }
    for (const int64_t block : touched) {
      const bool is_in_one = std::any_of(
          found.boxes.begin(), found.boxes.end(), [&](const Box& box) {
            for (int64_t i = block * 16; i < std::min(total, block * 16 + 16);
                 ++i) {
              if (!Holds(box, indices[static_cast<size_t>(i)])) {
                return false;
              }
            }
            return true;
          });
      EXPECT_TRUE(is_in_one) << "round " << round << " block " << block;
    }
  }
}

}  // namespace
}  // namespace belay::tools::block_boxes_test
