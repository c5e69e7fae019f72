#include <algorithm>
#include <limits>
#include <ostream>
#include <vector>

#include "box_oracle.h"
#include "core/strided_copy.h"
#include "counted_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belay {

bool operator==(const ElementRun& x, const ElementRun& y) {
  return x.a == y.a && x.b == y.b && x.length == y.length;
}
void PrintTo(const ElementRun& run, std::ostream* out) {
  *out << "{" << run.a << ", " << run.b << ", " << run.length << "}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<ElementRun> Runs(const Box& box, const Box& a_box,
                             const Box& b_box) {
  std::vector<ElementRun> runs;
  ForEachRun(box, a_box, b_box,
             [&](const ElementRun& run) { runs.push_back(run); });
  EXPECT_EQ(CountRuns(box, a_box, b_box), static_cast<int64_t>(runs.size()));
  return runs;
}

std::vector<Box> Tiles(const Box& box, int64_t max_elements) {
  std::vector<Box> tiles;
  ForEachTile(box, max_elements,
              [&](const Box& tile) { tiles.push_back(tile); });
  return tiles;
}

// One element at a time, joined with the run before it where both stores go
// on without a gap: by construction the longest runs there are.
std::vector<ElementRun> NaiveRuns(const Box& box, const Box& a_box,
                                  const Box& b_box) {
  std::vector<ElementRun> runs;
  for (const Position& element : Elements(box)) {
    const int64_t a = OffsetIn(a_box, element);
    const int64_t b = OffsetIn(b_box, element);
    if (!runs.empty() && runs.back().a + runs.back().length == a &&
        runs.back().b + runs.back().length == b) {
      ++runs.back().length;
    } else {
      runs.push_back({a, b, 1});
    }
  }
  return runs;
}

TEST(RunsTest, WholeArrayIsOneRun) {
  const Box whole = WholeBox({4, 3, 5});
  EXPECT_THAT(Runs(whole, whole, whole), ElementsAre(ElementRun{0, 0, 60}));
}

TEST(RunsTest, RowsAreOneRun) {
  const Box rows = {{1, 0}, {2, 5}};
  EXPECT_THAT(Runs(rows, rows, WholeBox({4, 5})),
              ElementsAre(ElementRun{0, 5, 10}));
}

TEST(RunsTest, ColumnsAreOneRunPerRow) {
  const Box columns = {{0, 1}, {3, 2}};
  EXPECT_THAT(Runs(columns, columns, WholeBox({3, 5})),
              ElementsAre(ElementRun{0, 1, 2}, ElementRun{2, 6, 2},
                          ElementRun{4, 11, 2}));
}

TEST(RunsTest, ARunIsContiguousInBothStores) {
  const Box box = {{1, 0}, {2, 4}};
  // Whole rows in the first store, half rows in the second.
  EXPECT_THAT(Runs(box, WholeBox({4, 4}), {{0, 0}, {4, 8}}),
              ElementsAre(ElementRun{4, 8, 4}, ElementRun{8, 16, 4}));
}

TEST(RunsTest, AxesOfLengthOneDoNotEndARun) {
  const Box box = {{0, 2, 0}, {1, 1, 6}};
  EXPECT_THAT(Runs(box, WholeBox({3, 4, 6}), box),
              ElementsAre(ElementRun{12, 0, 6}));
  const Box column = {{0, 0}, {5, 1}};
  EXPECT_THAT(Runs(column, column, WholeBox({5, 1})),
              ElementsAre(ElementRun{0, 0, 5}));
}

TEST(RunsTest, AChunkMayHangOverTheArray) {
  // The last chunk of 4 x 4 of an array of 6 x 5.
  const Box chunk = {{4, 4}, {4, 4}};
  EXPECT_THAT(Runs({{4, 4}, {2, 1}}, WholeBox({6, 5}), chunk),
              ElementsAre(ElementRun{24, 0, 1}, ElementRun{29, 4, 1}));
}

TEST(RunsTest, EmptyBoxesAndScalars) {
  EXPECT_THAT(Runs({}, {}, {}), ElementsAre(ElementRun{0, 0, 1}));
  EXPECT_THAT(Runs({{1, 0}, {0, 3}}, WholeBox({4, 3}), WholeBox({4, 3})),
              IsEmpty());
  EXPECT_THAT(Runs({{0}, {0}}, {{0}, {0}}, {{0}, {0}}), IsEmpty());
}

// A box around `box`, at most `margin` longer on each side of each axis.
Box DrawAround(Rng& rng, const Box& box, int64_t margin) {
  Box around = box;
  for (size_t axis = 0; axis < box.shape.size(); ++axis) {
    if (Draw(rng, 0, 1) == 0) continue;  // often tight, so that axes merge
    const int64_t before = Draw(rng, 0, std::min(margin, box.offset[axis]));
    around.offset[axis] -= before;
    around.shape[axis] += before + Draw(rng, 0, margin);
  }
  return around;
}

TEST(RunsTest, AgreesWithSingleElements) {
  Rng rng(4);
  int num_merged = 0;
  int num_deep = 0;
  for (int round = 0; round < 5000; ++round) {
    const Shape shape = DrawShape(rng, 5, 4);
    const Box box = DrawBox(rng, shape);
    const Box a_box = DrawAround(rng, box, 2);
    const Box b_box = DrawAround(rng, box, 2);
    const std::vector<ElementRun> naive = NaiveRuns(box, a_box, b_box);
    EXPECT_EQ(Runs(box, a_box, b_box), naive)
        << BoxText(box) << " in " << BoxText(a_box) << " and "
        << BoxText(b_box);
    if (!naive.empty()) {
      const auto first = FirstRun(box, a_box, b_box);
      EXPECT_EQ(first.a, naive[0].a);
      EXPECT_EQ(first.b, naive[0].b);
      EXPECT_EQ(first.length, naive[0].length);
      EXPECT_EQ(first.length, naive.back().length);
    }
    num_merged +=
        !shape.empty() && !naive.empty() && naive[0].length > box.shape.back();
    num_deep += naive.size() > 8;
  }
  EXPECT_GT(num_merged, 100);  // the draw reaches the cases that matter
  EXPECT_GT(num_deep, 100);
}

TEST(RunsTest, OffsetsNearTheEndOfInt64) {
  const int64_t n = int64_t{1} << 31;
  const Box whole = WholeBox({n, n - 1, 2});  // 2^63 - 2^32 elements
  const Box corner = {{n - 2, n - 3, 1}, {2, 2, 1}};
  const int64_t size = 2 * n * (n - 1);
  const int64_t row = 2 * (n - 1);
  EXPECT_THAT(
      Runs(corner, whole, corner),
      ElementsAre(ElementRun{size - row - 3, 0, 1},
                  ElementRun{size - row - 1, 1, 1}, ElementRun{size - 3, 2, 1},
                  ElementRun{size - 1, 3, 1}));
  EXPECT_EQ(CountRuns(whole, whole, whole), 1);
  EXPECT_EQ(CountRuns({{0, 0, 1}, {n, n - 1, 1}}, whole, whole), n * (n - 1));
  const int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(Runs({{max - 1}, {1}}, WholeBox({max}), {{max - 2}, {2}}),
              ElementsAre(ElementRun{max - 1, 1, 1}));
}

TEST(RunsTest, DoesNotAllocate) {
  const Box whole = WholeBox({20, 9, 20, 9});
  const Box box = {{0, 1, 0, 1}, {20, 7, 20, 7}};
  int64_t num_runs = 0;
  int64_t num_tiles = 0;
  const int64_t before = counted_memory.calls;
  ForEachRun(box, whole, box, [&](const ElementRun&) { ++num_runs; });
  ForEachTile(box, 3, [&](const Box&) { ++num_tiles; });
  EXPECT_EQ(counted_memory.calls, before);
  EXPECT_EQ(num_runs, 20 * 7 * 20);
  EXPECT_EQ(num_tiles, 20 * 7 * 20 * 3);
}

// A file may claim to have more than anybody can visit.
TEST(TilesTest, AnErrorEndsTheVisit) {
  const Box box = WholeBox({int64_t{1} << 40, int64_t{1} << 20});
  int64_t num_tiles = 0;
  const Status status = TryForEachTile(box, 7, [&](const Box&) {
    return ++num_tiles < 3 ? absl::OkStatus() : absl::DataLossError("torn");
  });
  EXPECT_EQ(status, absl::DataLossError("torn"));
  EXPECT_EQ(num_tiles, 3);
}

TEST(TilesTest, CutsTheOutermostAxisThatItCan) {
  const Box box = {{10, 20}, {5, 4}};
  EXPECT_THAT(Tiles(box, 20), ElementsAre(box));
  EXPECT_THAT(Tiles(box, 1000), ElementsAre(box));
  EXPECT_THAT(Tiles(box, 11),
              ElementsAre(Box{{10, 20}, {2, 4}}, Box{{12, 20}, {2, 4}},
                          Box{{14, 20}, {1, 4}}));
  EXPECT_THAT(Tiles({{10, 20}, {2, 4}}, 3),
              ElementsAre(Box{{10, 20}, {1, 3}}, Box{{10, 23}, {1, 1}},
                          Box{{11, 20}, {1, 3}}, Box{{11, 23}, {1, 1}}));
}

TEST(TilesTest, EmptyBoxesAndScalars) {
  EXPECT_THAT(Tiles({}, 1), ElementsAre(Box{}));
  EXPECT_THAT(Tiles({{3, 1}, {0, 4}}, 5), IsEmpty());
  EXPECT_THAT(Tiles({{3, 1}, {4, 0}}, 5), IsEmpty());
}

TEST(TilesTest, HugeBoxes) {
  const int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(Tiles({{0}, {max}}, max), ElementsAre(Box{{0}, {max}}));
  EXPECT_THAT(
      Tiles({{0, 0}, {2, max / 2}}, max - 2),
      ElementsAre(Box{{0, 0}, {1, max / 2}}, Box{{1, 0}, {1, max / 2}}));
  EXPECT_THAT(
      Tiles({{5}, {max - 5}}, max / 2),
      ElementsAre(Box{{5}, {max / 2}}, Box{{5 + max / 2}, {max / 2 - 4}}));
}

TEST(TilesTest, CoverTheBoxOnceInOrder) {
  Rng rng(5);
  for (int round = 0; round < 2000; ++round) {
    const Box box = DrawBox(rng, DrawShape(rng, 4, 8));
    const int64_t max_elements = Draw(rng, 1, 40);
    SCOPED_TRACE(::testing::Message()
                 << BoxText(box) << " by " << max_elements);
    std::vector<Position> covered;
    for (const Box& tile : Tiles(box, max_elements)) {
      EXPECT_GE(NumElements(tile.shape), 1);
      EXPECT_LE(NumElements(tile.shape), max_elements);
      for (const Position& element : Elements(tile)) covered.push_back(element);
    }
    EXPECT_EQ(covered, Elements(box));
  }
}

}  // namespace
}  // namespace belay
