#include "core/box_tiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "policy_testing.h"

namespace belay::box_tiling_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<const Box*> Pointers(const std::vector<Box>& boxes) {
  std::vector<const Box*> pointers;
  for (const Box& box : boxes) pointers.push_back(&box);
  return pointers;
}

// Parts of a random tiling, and sometimes a box that overlaps them.
std::vector<Box> RandomBoxes(const Shape& shape, Random& random) {
  std::vector<Box> boxes;
  for (Box& box : RandomTiling(WholeBox(shape), 3, random)) {
    if (Uniform(0, 15, random) > 0) boxes.push_back(std::move(box));
  }
  for (int64_t more = Uniform(-2, 2, random); more > 0; --more) {
    boxes.push_back(RandomTiling(WholeBox(shape), 3, random)[0]);
  }
  std::shuffle(boxes.begin(), boxes.end(), random);
  return boxes;
}

Shape RandomShape(Random& random) {
  Shape shape;
  for (int64_t ndim = Uniform(0, 3, random); ndim > 0; --ndim) {
    shape.push_back(Uniform(1, 5, random));
  }
  return shape;
}

std::string Text(const Shape& shape, const std::vector<Box>& boxes) {
  std::string text = ShapeText(shape);
  for (const Box& box : boxes) text += " " + BoxText(box);
  return text;
}

TEST(IsTilingTest, SaysYesOfTilingsOnly) {
  const auto tile = [](const Shape& shape, const std::vector<Box>& boxes) {
    return IsTiling(shape, Pointers(boxes));
  };
  EXPECT_TRUE(tile({}, {{{}, {}}}));
  EXPECT_FALSE(tile({}, {}));
  EXPECT_FALSE(tile({}, {{{}, {}}, {{}, {}}}));
  EXPECT_TRUE(tile({0, 3}, {}));
  EXPECT_TRUE(tile({0}, {{{0}, {0}}}));
  EXPECT_FALSE(tile({1}, {{{0}, {0}}}));
  EXPECT_FALSE(tile({3}, {{{0}, {2}}}));
  EXPECT_FALSE(tile({3}, {}));
  // An overlap as large as the gap.
  EXPECT_FALSE(tile({64}, {{{0}, {32}}, {{0}, {32}}}));
  EXPECT_FALSE(tile({2, 2}, {{{0, 0}, {1, 2}}, {{0, 1}, {2, 1}}}));
  // Whole axes as long as numbers go.
  constexpr int64_t kHalf = INT64_MAX / 2;
  EXPECT_TRUE(
      tile({INT64_MAX}, {{{kHalf}, {INT64_MAX - kHalf}}, {{0}, {kHalf}}}));
  EXPECT_FALSE(
      tile({INT64_MAX}, {{{kHalf}, {kHalf}}, {{0}, {INT64_MAX - kHalf}}}));
}

TEST(IsTilingTest, AgreesWithCountingElements) {
  int tilings = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const Shape shape = RandomShape(random);
    const std::vector<Box> boxes = RandomBoxes(shape, random);
    bool once = true;
    ForEachTile(WholeBox(shape), 1, [&](const Box& element) {
      once = once && 1 == std::ranges::count_if(boxes, [&](const Box& box) {
                       return Intersect(box, element).has_value();
                     });
    });
    ASSERT_EQ(IsTiling(shape, Pointers(boxes)), once) << Text(shape, boxes);
    tilings += once ? 1 : 0;
  }
  EXPECT_GT(tilings, 100);
  EXPECT_LT(tilings, 1900);
}

TEST(FindOverlapsTest, NamesEachBoxThatOverlaps) {
  const std::vector<Box> boxes = {{{0}, {4}}, {{6}, {2}}, {{2}, {1}},
                                  {{3}, {2}}, {{9}, {0}}, {{8}, {1}}};
  const auto pairs = FindOverlaps(Pointers(boxes), 10);
  EXPECT_THAT(pairs, ElementsAre(Pair(0, 2), Pair(3, 0)));
  EXPECT_EQ(FindOverlaps(Pointers(boxes), 1).size(), 1u);
  EXPECT_THAT(FindOverlaps({}, 10), IsEmpty());
}

TEST(FindOverlapsTest, AgreesWithAllPairs) {
  Random random(1);
  int overlapping = 0;
  for (int i = 0; i < 5000; ++i) {
    const Shape shape = RandomShape(random);
    const std::vector<Box> boxes = RandomBoxes(shape, random);
    std::set<size_t> need, found;
    for (size_t a = 0; a < boxes.size(); ++a) {
      for (size_t b = 0; b < boxes.size(); ++b) {
        if (a != b && Intersect(boxes[a], boxes[b])) need.insert(a);
      }
    }
    for (const auto& [a, b] : FindOverlaps(Pointers(boxes), SIZE_MAX)) {
      ASSERT_NE(a, b);
      ASSERT_TRUE(Intersect(boxes[a], boxes[b]).has_value());
      found.insert({a, b});
    }
    ASSERT_EQ(found, need) << Text(shape, boxes);
    overlapping += !need.empty();
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_LT(overlapping, 4000);
}

TEST(FindGapTest, WholeOfWhatIsOpen) {
  const Box whole = WholeBox({10});
  EXPECT_EQ(FindGap(whole, {}, true), whole);
  const std::vector<Box> ends = {{{0}, {3}}, {{7}, {3}}};
  EXPECT_EQ(FindGap(whole, Pointers(ends), true), (Box{{3}, {4}}));
  EXPECT_EQ(FindGap(WholeBox({0}), {}, true), std::nullopt);
  const Box scalar;
  EXPECT_EQ(FindGap(scalar, {}, true), scalar);
  EXPECT_EQ(FindGap(scalar, {&scalar}, true), std::nullopt);
}

TEST(FindGapTest, AgreesWithTheElements) {
  Random random(2);
  int gaps = 0, joined = 0;
  for (int i = 0; i < 10000; ++i) {
    const Shape shape = RandomShape(random);
    const std::vector<Box> boxes = RandomBoxes(shape, random);
    std::vector<int> counts(NumElements(shape), 0);
    for (const Box& box : boxes) {
      for (int64_t element : ElementsOf(box, shape)) ++counts[element];
    }
    const bool disjoint = *std::max_element(counts.begin(), counts.end()) < 2;
    const bool open = std::count(counts.begin(), counts.end(), 0) > 0;
    const std::optional<Box> gap =
        FindGap(WholeBox(shape), Pointers(boxes), disjoint);
    ASSERT_EQ(gap.has_value(), open) << Text(shape, boxes);
    gaps += open;
    joined += !disjoint;
    if (!open) continue;
    ASSERT_FALSE(IsEmpty(*gap));
    for (int64_t element : ElementsOf(*gap, shape)) {
      ASSERT_EQ(counts[element], 0) << Text(shape, boxes);
    }
  }
  EXPECT_GT(gaps, 1000);
  EXPECT_LT(gaps, 9000);
  EXPECT_GT(joined, 1000);
}

TEST(BoxOwnersTest, OnlyTheBoxThatContainsAll) {
  const std::vector<Box> rows = {{{0, 0}, {2, 4}}, {{4, 0}, {1, 4}}};
  BoxOwners owners(Pointers(rows));
  EXPECT_EQ(owners.Find({{0, 0}, {2, 4}}), 0u);
  EXPECT_EQ(owners.Find({{1, 2}, {1, 2}}), 0u);
  EXPECT_EQ(owners.Find({{4, 3}, {1, 1}}), 1u);
  EXPECT_EQ(owners.Find({{2, 0}, {1, 1}}), std::nullopt) << "between them";
  EXPECT_EQ(owners.Find({{1, 0}, {2, 1}}), std::nullopt) << "reaches out";
  EXPECT_EQ(owners.Find({{0, 0}, {5, 4}}), std::nullopt) << "joins both";
  const Box one{{1}, {3}};
  BoxOwners alone({&one});
  EXPECT_EQ(alone.Find({{2}, {2}}), 0u);
  EXPECT_EQ(alone.Find({{0}, {2}}), std::nullopt);
  EXPECT_EQ(BoxOwners({}).Find(one), std::nullopt);
}

}  // namespace
}  // namespace belay::box_tiling_test
