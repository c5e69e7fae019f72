#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "box_oracle.h"
#include "plan/restore_planner.h"

namespace belay::whole_rows_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

HeldBox Held(Box box, const std::vector<int32_t>& ranks) {
  HeldBox held{.box = std::move(box)};
  for (int32_t rank : ranks) held.holders.push_back({.rank = rank, .shard = 7});
  return held;
}

std::vector<int32_t> RanksOf(const HeldBox& held) {
  std::vector<int32_t> ranks;
  for (const HeldShard& holder : held.holders) ranks.push_back(holder.rank);
  return ranks;
}

std::vector<Box> CopiesOfBoxes(const std::vector<HeldBox>& held) {
  std::vector<Box> boxes;
  for (const HeldBox& one : held) boxes.push_back(one.box);
  return boxes;
}

TEST(JoinSideBySideTest, ColumnsBecomeRows) {
  const auto joined = JoinSideBySide({Held({{0, 5}, {8, 3}}, {1, 4}),
                                      Held({{0, 0}, {8, 2}}, {3}),
                                      Held({{0, 2}, {8, 3}}, {0, 2})});
  EXPECT_THAT(CopiesOfBoxes(joined), ElementsAre(WholeBox({8, 8})));
  EXPECT_THAT(RanksOf(joined[0]), ElementsAre(0, 1, 2, 3, 4));
}

TEST(JoinSideBySideTest, OneBandForEachRowOfAGrid) {
  const auto joined = JoinSideBySide(
      {Held({{0, 0}, {4, 4}}, {0}), Held({{0, 4}, {4, 4}}, {1}),
       Held({{4, 0}, {4, 4}}, {2}), Held({{4, 4}, {4, 4}}, {3})});
  EXPECT_THAT(CopiesOfBoxes(joined),
              ElementsAre(Box{{0, 0}, {4, 8}}, Box{{4, 0}, {4, 8}}));
  EXPECT_THAT(RanksOf(joined[1]), ElementsAre(2, 3));
}

TEST(JoinSideBySideTest, AlongSeveralAxes) {
  std::vector<HeldBox> boxes;
  for (int32_t i = 0; i < 8; ++i) {
    boxes.push_back(
        Held({{i / 4 * 3, i / 2 % 2 * 2, i % 2 * 5}, {3, 2, 5}}, {i}));
  }
  const auto joined = JoinSideBySide(std::move(boxes));
  EXPECT_THAT(CopiesOfBoxes(joined), ElementsAre(Box{{0, 0, 0}, {3, 4, 10}},
                                                 Box{{3, 0, 0}, {3, 4, 10}}));
}

TEST(JoinSideBySideTest, OnlyWhatFollowsEachOther) {
  const std::vector<Box> apart = {{{0, 0}, {4, 2}},   // rows 0 to 3
                                  {{0, 3}, {4, 2}},   // with a gap
                                  {{1, 5}, {4, 2}}};  // other rows
  std::vector<HeldBox> boxes;
  for (const Box& box : apart) boxes.push_back(Held(box, {0}));
  EXPECT_EQ(CopiesOfBoxes(JoinSideBySide(std::move(boxes))), apart);
  // Rows are not joined: that would save nothing.
  const auto rows = JoinSideBySide(
      {Held({{0, 0}, {2, 8}}, {0}), Held({{2, 0}, {2, 8}}, {1})});
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_THAT(JoinSideBySide({}), IsEmpty());
  EXPECT_EQ(JoinSideBySide({Held({}, {0})}).size(), 1u);
}

// An index of one array of f32, in chunks of that shape if it is not empty.
SavedCheckpoint OneArray(Shape shape, Shape chunk) {
  const Box whole = WholeBox(shape);
  return {.arrays = {{"w", DType::kF32, std::move(shape), 0}},
          .datasets = {{.box = whole, .chunk = std::move(chunk), .offset = 0}},
          .files = {{"f"}}};
}

// What is saved by joining `parts` columns.
int64_t SavedByJoining(const Shape& shape, const Shape& chunk, int32_t parts,
                       std::vector<HeldBox>& boxes) {
  const SavedCheckpoint saved = OneArray(shape, chunk);
  std::vector<FilteredDataset> filtered;
  const std::vector<ArrayDatasets> stored = ListDatasets(saved, {0}, filtered);
  const int64_t width = shape[1] / parts;
  boxes.clear();
  for (int32_t i = 0; i < parts; ++i) {
    boxes.push_back(Held({{0, i * width}, {shape[0], width}}, {i}));
  }
  return JoinIntoRows(stored[0], 4, boxes);
}

TEST(JoinIntoRowsTest, WhereItSavesRequests) {
  std::vector<HeldBox> boxes;
  // By rows 4 x 1000 runs of 256 elements; together one.
  EXPECT_EQ(SavedByJoining({1000, 1024}, {}, 4, boxes), 3999);
  EXPECT_THAT(CopiesOfBoxes(boxes), ElementsAre(WholeBox({1000, 1024})));
  // Each column is a chunk of its own.
  EXPECT_EQ(SavedByJoining({1000, 1024}, {1000, 256}, 4, boxes), 0);
  EXPECT_EQ(boxes.size(), 4u);
  // Chunks of other columns are read whole.
  EXPECT_EQ(SavedByJoining({1000, 1024}, {1000, 512}, 4, boxes), 4 * 1000 - 2);
}

TEST(JoinIntoRowsTest, NotWhereRunsAreLong) {
  std::vector<HeldBox> boxes;
  constexpr int64_t kLong = kBytesPerRequest / 4;  // elements
  EXPECT_EQ(SavedByJoining({100, 3 * kLong}, {}, 4, boxes), 4 * 100 - 1);
  EXPECT_EQ(SavedByJoining({100, 5 * kLong}, {}, 4, boxes), 0);
}

}  // namespace
}  // namespace belay::whole_rows_test
