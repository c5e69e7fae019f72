// Stripes counted from boxes against stripes counted byte by byte.

#include "plan/stripe_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "box_oracle.h"

namespace belay::stripe_use_test {
namespace {

using ::testing::ElementsAre;

// The stripes of every byte of the box, by its place in the extent.
std::set<int64_t> StripesOf(const Box& box, const Extent& extent,
                            int64_t element_size, int64_t stripe_bytes) {
  std::set<int64_t> stripes;
  for (const Position& index : Elements(box)) {
    int64_t number = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      number = number * extent.box.shape[axis] + index[axis] -
               extent.box.offset[axis];
    }
    for (int64_t byte = 0; byte < element_size; ++byte) {
      stripes.insert((extent.offset + number * element_size + byte) /
                     stripe_bytes);
    }
  }
  return stripes;
}

StripeUse UseOf(const std::vector<std::set<int64_t>>& writers) {
  std::map<int64_t, int> count;
  for (const std::set<int64_t>& stripes : writers) {
    for (const int64_t stripe : stripes) ++count[stripe];
  }
  StripeUse use{.stripes = std::ssize(count)};
  for (const auto& [stripe, writing] : count) use.shared += writing > 1 ? 1 : 0;
  return use;
}

std::set<int64_t> AllOf(const std::vector<StripeRange>& ranges) {
  std::set<int64_t> stripes;
  for (const StripeRange& range : ranges) {
    for (int64_t i = range.first; i <= range.last; ++i) stripes.insert(i);
  }
  return stripes;
}

TEST(StripeUseTest, CountsAreThoseOfTheBytes) {
  Rng rng(20261);
  int64_t shared = 0;
  for (int round = 0; round < 3000; ++round) {
    const int64_t stripe_bytes = Draw(rng, 1, 40);
    std::vector<StripeRange> ranges;
    std::vector<std::set<int64_t>> need(3);
    for (int64_t piece = Draw(rng, 1, 6); piece > 0; --piece) {
      const Shape shape = DrawShape(rng, 4, 6);
      const Extent extent{WholeBox(shape), Draw(rng, 0, 300)};
      const Box box = DrawBox(rng, shape);
      const int64_t size = int64_t{1} << Draw(rng, 0, 4);
      const auto writer = static_cast<int32_t>(Draw(rng, 0, 2));
      std::vector<StripeRange> mine;
      EXPECT_TRUE(AddStripeRanges(box, extent, size, stripe_bytes, 1000000,
                                  writer, mine));
      const std::set<int64_t> stripes =
          StripesOf(box, extent, size, stripe_bytes);
      EXPECT_EQ(AllOf(mine), stripes) << "round " << round;
      need[writer].insert(stripes.begin(), stripes.end());
      ranges.insert(ranges.end(), mine.begin(), mine.end());
    }
    const StripeUse use = CountStripes(ranges);
    EXPECT_EQ(use, UseOf(need)) << "round " << round;
    shared += use.shared;
    if (HasFailure()) return;
  }
  EXPECT_GT(shared, 1000);
}

// Of too many ranges none is left out, and they are said to be inexact.
TEST(StripeUseTest, RangesAreLimited) {
  Rng rng(7);
  int inexact = 0;
  for (int round = 0; round < 2000; ++round) {
    const Shape shape = DrawShape(rng, 4, 9);
    const Extent extent{WholeBox(shape), Draw(rng, 0, 300)};
    const Box box = DrawBox(rng, shape);
    const int64_t most = Draw(rng, 1, 10);
    std::vector<StripeRange> ranges;
    const bool is_exact = AddStripeRanges(box, extent, 4, 8, most, 0, ranges);
    EXPECT_LE(std::ssize(ranges), most);
    const std::set<int64_t> found = AllOf(ranges);
    for (const int64_t stripe : StripesOf(box, extent, 4, 8)) {
      EXPECT_TRUE(found.contains(stripe)) << "round " << round;
    }
    if (is_exact) {
      EXPECT_EQ(found, StripesOf(box, extent, 4, 8));
    }
    inexact += is_exact ? 0 : 1;
    if (HasFailure()) return;
  }
  EXPECT_GT(inexact, 100);
}

// A TiB of rows and of columns: as few ranges as there are gaps.
TEST(StripeUseTest, LargeBoxesHaveFewRanges) {
  const Shape shape = {1 << 19, 1 << 19};
  const Extent extent{WholeBox(shape), 4096};
  std::vector<StripeRange> ranges;
  EXPECT_TRUE(AddStripeRanges({{0, 0}, {1 << 18, 1 << 19}}, extent, 4, 1 << 20,
                              1 << 20, 1, ranges));
  EXPECT_THAT(ranges, ElementsAre(StripeRange{0, int64_t{1} << 19, 1}));
  ranges.clear();
  // Rows of 2 MiB, of which 1 MiB each, the gaps a MiB: one stripe between
  // them could be left out.
  EXPECT_TRUE(AddStripeRanges({{0, 0}, {4, 1 << 18}}, extent, 4, 1 << 20,
                              1 << 20, 1, ranges));
  EXPECT_EQ(ranges.size(), 4u);
  ranges.clear();
  EXPECT_TRUE(AddStripeRanges({{0, 0}, {1 << 19, 1 << 18}}, extent, 4, 4 << 20,
                              1, 2, ranges));
  EXPECT_THAT(ranges, ElementsAre(StripeRange{0, (1 << 18) - 1, 2}));
}

}  // namespace
}  // namespace belay::stripe_use_test
