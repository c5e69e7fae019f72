#include <gtest/gtest.h>

#include "belay/arrays/layout.h"
#include "plan/chunks.h"

namespace belay::default_chunks_test {
namespace {

Shape Chosen(const Shape& shape, int64_t element_size,
             const std::vector<Box>& boxes) {
  std::vector<const Box*> plain;
  for (const Box& box : boxes) plain.push_back(&box);
  return ChooseChunkShape(shape, element_size, plain);
}

// The boxes of an array of f32, cut into that many parts per axis. Parts that
// are empty are left out.
Shape ChosenForCut(const Shape& shape, int64_t rows, int64_t columns) {
  const Mesh mesh = Mesh::Create({{"x", rows}, {"y", columns}}).value();
  const Layout layout = Layout::Create(mesh, {{"x"}, {"y"}}).value();
  std::vector<Box> boxes;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    const Box box = layout.LocalBox(shape, rank).value();
    if (!IsEmpty(box)) boxes.push_back(box);
  }
  return Chosen(shape, 4, boxes);
}

TEST(ChooseChunkShapeTest, RowsAreContiguous) {
  EXPECT_EQ(ChosenForCut({64, 64}, 4, 1), Shape{});
  EXPECT_EQ(ChosenForCut({64, 1}, 4, 1), Shape{});
}

TEST(ChooseChunkShapeTest, ColumnsAreChunked) {
  EXPECT_EQ(ChosenForCut({64, 64}, 1, 4), (Shape{64, 16}));
}

TEST(ChooseChunkShapeTest, GridIsChunked) {
  EXPECT_EQ(ChosenForCut({64, 64}, 2, 4), (Shape{32, 16}));
}

TEST(ChooseChunkShapeTest, UnevenGridIsContiguous) {
  EXPECT_EQ(ChosenForCut({64, 10}, 1, 4), Shape{});  // 3, 3, 2, 2
}

TEST(ChooseChunkShapeTest, SmallerOnlyAtTheFarEnds) {
  EXPECT_EQ(ChosenForCut({5, 11}, 2, 3), (Shape{3, 4}));  // 3, 2; 4, 4, 3
  EXPECT_EQ(Chosen({4, 5}, 4, {{{0, 0}, {4, 2}}, {{0, 2}, {4, 3}}}), Shape{});
  EXPECT_EQ(
      Chosen({4, 7}, 4, {{{0, 0}, {4, 3}}, {{0, 3}, {4, 1}}, {{0, 4}, {4, 3}}}),
      Shape{});
}

TEST(ChooseChunkShapeTest, MoreRanksThanColumns) {
  EXPECT_EQ(ChosenForCut({4, 3}, 1, 5), (Shape{4, 1}));
}

TEST(ChooseChunkShapeTest, LongRunsAreContiguous) {
  const int64_t run = kLongRunBytes / 4;
  EXPECT_EQ(ChosenForCut({8, 2 * run}, 1, 2), Shape{});
  EXPECT_EQ(ChosenForCut({8, 2 * run - 2}, 1, 2), (Shape{8, run - 1}));
}

TEST(CellShapeTest, AnyRegularGridHasCells) {
  const auto cell = [](const Shape& shape, const std::vector<Box>& boxes) {
    std::vector<const Box*> plain;
    for (const Box& box : boxes) plain.push_back(&box);
    return CellShape(shape, plain);
  };
  EXPECT_EQ(cell({8, 4}, {{{0, 0}, {8, 4}}}), Shape({8, 4}));
  EXPECT_EQ(cell({8, 4}, {{{0, 0}, {5, 4}}, {{5, 0}, {3, 4}}}), Shape({5, 4}));
  EXPECT_EQ(cell({8, 4}, {{{0, 0}, {3, 4}}, {{3, 0}, {5, 4}}}), Shape{});
  EXPECT_EQ(cell({8, 4}, {}), Shape{});
  EXPECT_EQ(cell({}, {Box{}}), Shape{});
}

TEST(ChooseChunkShapeTest, OneBoxIsContiguous) {
  EXPECT_EQ(ChosenForCut({64, 64}, 1, 1), Shape{});
  EXPECT_EQ(Chosen({}, 4, {Box{}}), Shape{});
}

TEST(ChooseChunkShapeTest, ChunksStayBelowFourGiB) {
  const int64_t rows = int64_t{1} << 20;
  EXPECT_EQ(ChosenForCut({rows, 2048}, 1, 2), Shape{});
  EXPECT_EQ(ChosenForCut({rows - 1, 2048}, 1, 2), (Shape{rows - 1, 1024}));
}

TEST(ChooseChunkShapeTest, InnerAxesOfThree) {
  EXPECT_EQ(
      Chosen({2, 4, 3}, 1, {{{0, 0, 0}, {2, 2, 3}}, {{0, 2, 0}, {2, 2, 3}}}),
      (Shape{2, 2, 3}));
}

TEST(ChunkCountTest, AMillionOfADatasetAndMoreOfAFairSize) {
  constexpr int64_t kMillion = 1 << 20;
  const auto add = [](int64_t length, int64_t chunk) {
    return ChunkCount("read").Add("k", {3, length}, {3, chunk}, 1);
  };
  EXPECT_EQ(add(kMillion, 1), absl::OkStatus());
  EXPECT_EQ(add(2 * kMillion, 2), absl::OkStatus());
  EXPECT_EQ(add(4 * kMillion, 1),
            absl::ResourceExhaustedError(
                "read: key \"k\": there are too many chunks; save it in larger "
                "ones (need at most 1048768, found 4194304, and 0 before)"));
  EXPECT_EQ(add(int64_t{1} << 60, 64 << 10), absl::OkStatus());
  EXPECT_FALSE(add(int64_t{1} << 60, 1 << 10).ok());
}

TEST(ChunkCountTest, SixteenMillionOfACheckpoint) {
  ChunkCount count("read");
  EXPECT_EQ(count.Add("k", {int64_t{1} << 62}, {}, 1), absl::OkStatus());
  for (int dataset = 0; dataset < 16; ++dataset) {
    EXPECT_EQ(count.Add("k", {1 << 20}, {1}, 1), absl::OkStatus()) << dataset;
  }
  EXPECT_FALSE(count.Add("k", {1 << 10}, {1}, 1).ok());
  EXPECT_EQ(count.Add("k", {1 << 20}, {1 << 16}, 1), absl::OkStatus());
}

}  // namespace
}  // namespace belay::default_chunks_test
