#include "plan/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "core/box_tiling.h"
#include "model_testing.h"

namespace belay::coverage_test {
namespace {

using ::testing::ElementsAre;

// Shards of one key, one per rank in the order they are added.
class Shards {
 public:
  Shards& Add(ShardInfo info) {
    infos_.push_back(std::move(info));
    held_.push_back(
        {.rank = static_cast<int32_t>(held_.size()), .info = &infos_.back()});
    return *this;
  }
  StatusOr<std::vector<HeldBox>> Check() const { return CheckCoverage(held_); }
  ShardInfo& info(size_t i) { return infos_[i]; }
  void SetRank(size_t i, int32_t rank) { held_[i].rank = rank; }

 private:
  std::deque<ShardInfo> infos_;  // which stay where they are
  std::vector<HeldShard> held_;
};

Shards Boxes(const Shape& shape, const std::vector<Box>& boxes) {
  const StoredArray array{"w", DType::kF32, shape, 0};
  Shards shards;
  for (const Box& box : boxes) shards.Add(InfoOf(array, box));
  return shards;
}

Shards Text(const std::vector<int64_t>& lengths) {
  Shards shards;
  for (size_t i = 0; i < lengths.size(); ++i) {
    shards.Add({.key = "w",
                .dtype = DType::kString,
                .replica = static_cast<int64_t>(i),
                .string_bytes = lengths[i]});
  }
  return shards;
}

Status Invalid(std::string_view message) {
  return absl::InvalidArgumentError(
      absl::string_view(message.data(), message.size()));
}

std::vector<Box> GetBoxes(const StatusOr<std::vector<HeldBox>>& held) {
  std::vector<Box> boxes;
  for (const HeldBox& one : held.value()) boxes.push_back(one.box);
  return boxes;
}

TEST(CheckCoverageTest, GridInAnyOrder) {
  EXPECT_THAT(GetBoxes(Boxes({4, 5}, {{{2, 3}, {2, 2}},
                                      {{0, 0}, {2, 3}},
                                      {{2, 0}, {2, 3}},
                                      {{0, 3}, {2, 2}}})
                           .Check()),
              ElementsAre(Box{{0, 0}, {2, 3}}, Box{{0, 3}, {2, 2}},
                          Box{{2, 0}, {2, 3}}, Box{{2, 3}, {2, 2}}));
}

TEST(CheckCoverageTest, PinwheelIsATiling) {
  EXPECT_TRUE(Boxes({3, 3}, {{{0, 0}, {1, 2}},
                             {{0, 2}, {2, 1}},
                             {{2, 1}, {1, 2}},
                             {{1, 0}, {2, 1}},
                             {{1, 1}, {1, 1}}})
                  .Check()
                  .ok());
}

TEST(CheckCoverageTest, UnevenCutWithEmptyBoxes) {
  EXPECT_THAT(
      GetBoxes(
          Boxes({2},
                {{{0}, {1}}, {{1}, {1}}, {{2}, {0}}, {{2}, {0}}, {{1}, {0}}})
              .Check()),
      ElementsAre(Box{{0}, {1}}, Box{{1}, {1}}));
}

TEST(CheckCoverageTest, ReplicasAreHoldersOfOneBox) {
  Shards shards = Boxes({2}, {{{0}, {2}}, {{0}, {2}}, {{0}, {2}}});
  shards.info(0).replica = 2;
  shards.info(1).replica = 5;
  const std::vector<HeldBox> boxes = shards.Check().value();
  ASSERT_EQ(boxes.size(), 1u);
  ASSERT_EQ(boxes[0].holders.size(), 3u);
  EXPECT_EQ(boxes[0].holders[1].rank, 1);
  EXPECT_EQ(boxes[0].holders[1].info->replica, 5);
}

TEST(CheckCoverageTest, ScalarsTextsAndEmptyArrays) {
  EXPECT_THAT(GetBoxes(Boxes({}, {{}}).Check()), ElementsAre(Box{}));
  EXPECT_THAT(GetBoxes(Text({7, 7}).Check()), ElementsAre(Box{{0}, {7}}));
  EXPECT_THAT(GetBoxes(Text({0, 0}).Check()), ElementsAre());
  EXPECT_THAT(GetBoxes(Boxes({3, 0}, {{{0, 0}, {3, 0}}}).Check()),
              ElementsAre());
}

TEST(CheckCoverageErrorTest, Overlap) {
  EXPECT_EQ(Boxes({4}, {{{0}, {2}}, {{2}, {2}}, {{1}, {2}}}).Check().status(),
            Invalid("plan \"w\": shards overlap: box \"0,2\" of rank 0 and box "
                    "\"1,2\" of rank 2; leave ghost cells out: a MemoryLayout "
                    "describes a box in larger memory"));
}

TEST(CheckCoverageErrorTest, OneBoxWithTwoLengths) {
  EXPECT_EQ(Boxes({4}, {{{0}, {4}}, {{0}, {2}}}).Check().status(),
            Invalid("plan \"w\": shards overlap: box \"0,2\" of rank 1 and box "
                    "\"0,4\" of rank 0; leave ghost cells out: a MemoryLayout "
                    "describes a box in larger memory"));
}

// The lengths add up to the axis and each interval ends where another begins
// or at the end of the axis: only the beginning is missing.
TEST(CheckCoverageErrorTest, OverlapThatMakesUpForAGap) {
  EXPECT_EQ(Boxes({4}, {{{1}, {3}}, {{3}, {1}}}).Check().status(),
            Invalid("plan \"w\": shards overlap: box \"1,3\" of rank 0 and box "
                    "\"3,1\" of rank 1; leave ghost cells out: a MemoryLayout "
                    "describes a box in larger memory"));
}

TEST(CheckCoverageErrorTest, Gap) {
  EXPECT_EQ(
      Boxes({4, 2}, {{{0, 0}, {2, 2}}, {{3, 0}, {1, 2}}}).Check().status(),
      Invalid("plan \"w\": no rank holds box \"2,1:0,2\" (need 8 elements "
              "of shape [4, 2], found 6)"));
  EXPECT_EQ(Boxes({4}, {{{0}, {0}}}).Check().status(),
            Invalid("plan \"w\": no rank holds box \"0,4\" (need 4 elements of "
                    "shape [4], found 0)"));
}

TEST(CheckCoverageErrorTest, Bounds) {
  EXPECT_EQ(Boxes({4}, {{{0}, {4}}, {{2}, {3}}}).Check().status(),
            absl::OutOfRangeError("plan \"w\": rank 1: check box \"2,3\": box "
                                  "reaches past axis 0 of [4] (need 5, found "
                                  "4)"));
  EXPECT_EQ(Boxes({4}, {{{-1}, {5}}}).Check().status(),
            Invalid("plan \"w\": rank 0: check box \"-1,5\": offset of axis 0 "
                    "is negative (need 0 or more, found -1)"));
  EXPECT_EQ(
      Boxes({4}, {{{0, 0}, {4, 1}}}).Check().status(),
      Invalid("plan \"w\": rank 0: check box \"0,4:0,1\": wrong number of "
              "axes (need 1, found 2)"));
}

TEST(CheckCoverageErrorTest, Dtype) {
  Shards shards = Boxes({4}, {{{0}, {2}}, {{2}, {2}}});
  shards.info(1).dtype = DType::kF64;
  EXPECT_EQ(shards.Check().status(),
            Invalid("plan \"w\": ranks disagree on the dtype (rank 0 has f32, "
                    "rank 1 has f64)"));
}

TEST(CheckCoverageErrorTest, ShapeDiffers) {
  Shards shards = Boxes({4}, {{{0}, {2}}, {{2}, {2}}});
  shards.info(1).global_shape = {5};
  EXPECT_EQ(shards.Check().status(),
            Invalid("plan \"w\": ranks disagree on the shape (rank 0 has [4], "
                    "rank 1 has [5])"));
}

TEST(CheckCoverageErrorTest, TextLength) {
  EXPECT_EQ(Text({3, 3, 4}).Check().status(),
            Invalid("plan \"w\": ranks disagree on the text length (rank 0 has "
                    "3, rank 2 has 4)"));
}

TEST(CheckCoverageErrorTest, ReplicaNumberTwice) {
  Shards shards = Boxes({4}, {{{0}, {4}}, {{0}, {4}}, {{0}, {4}}});
  shards.info(0).replica = 1;
  shards.info(1).replica = 3;
  shards.info(2).replica = 3;
  EXPECT_EQ(
      shards.Check().status(),
      Invalid("plan \"w\": shards overlap: box \"0,4\" of rank 1 and of "
              "rank 2, both replica 3; give each replica its own number"));
}

TEST(CheckCoverageErrorTest, OneRankAddsAKeyTwice) {
  Shards shards = Boxes({4}, {{{0}, {2}}, {{2}, {2}}, {{2}, {2}}});
  shards.SetRank(2, 1);
  EXPECT_EQ(shards.Check().status(),
            Invalid("plan \"w\": the key was added twice: box \"2,2\" of rank "
                    "1, both times as replica 0"));
}

TEST(CheckCoverageErrorTest, BadArrays) {
  EXPECT_EQ(
      Boxes({-1}, {{{0}, {0}}}).Check().status(),
      Invalid("plan \"w\": rank 0: check shape \"[-1]\": length of axis 0 "
              "is negative (need 0 or more, found -1)"));
  const int64_t large = int64_t{1} << 61;
  EXPECT_EQ(
      Boxes({large}, {{{0}, {large}}}).Check().status(),
      Invalid("plan \"w\": rank 0: the array has more than 2^63 - 1 bytes "
              "(2305843009213693952 elements of 4 bytes)"));
  Shards shards = Text({2});
  shards.info(0).global_shape = {1};
  EXPECT_EQ(shards.Check().status(),
            Invalid("plan \"w\": rank 0: a string is always a scalar (need "
                    "shape [], found [1])"));
}

Box RandomBox(const Shape& shape, Random& random) {
  Box box = WholeBox(shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    box.offset[axis] = Uniform(0, shape[axis], random);
    box.shape[axis] = Uniform(0, shape[axis] - box.offset[axis], random);
  }
  return box;
}

Shape RandomShape(Random& random) {
  Shape shape;
  const int64_t ndim = Uniform(1, 3, random);
  for (int64_t i = 0; i < ndim; ++i) shape.push_back(Uniform(1, 4, random));
  return shape;
}

// Whether each element is covered by exactly one of the distinct boxes.
bool CoversOnce(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<int> counts(NumElements(shape), 0);
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (std::find(boxes.begin(), boxes.begin() + i, boxes[i]) !=
        boxes.begin() + i) {
      continue;
    }
    ForEachRun(boxes[i], WholeBox(shape), WholeBox(shape),
               [&](const ElementRun& run) {
                 for (int64_t k = 0; k < run.length; ++k) ++counts[run.a + k];
               });
  }
  return std::count(counts.begin(), counts.end(), 1) ==
         static_cast<int64_t>(counts.size());
}

// Tilings, some with one box changed, left out or put in twice.
std::vector<Box> AlmostTiling(const Shape& shape, Random& random) {
  std::vector<Box> boxes = RandomTiling(
      WholeBox(shape), static_cast<int>(Uniform(0, 4, random)), random);
  const auto last = static_cast<int64_t>(boxes.size()) - 1;
  Box& one = boxes[Uniform(0, last, random)];
  switch (Uniform(0, 5, random)) {
    case 0:
      one = RandomBox(shape, random);
      break;
    case 1:
      one = Box{Shape(shape.size(), 0), Shape(shape.size(), 0)};
      break;
    case 2:
      boxes.push_back(RandomBox(shape, random));
      break;
    case 3:
      boxes.push_back(Box(one));
      break;
  }
  std::shuffle(boxes.begin(), boxes.end(), random);
  return boxes;
}

TEST(CheckCoverageTest, AcceptsExactlyTheTilings) {
  Random random(6);
  int accepted = 0;
  const int kCases = 20000;
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = RandomShape(random);
    const std::vector<Box> boxes = AlmostTiling(shape, random);
    Shards shards = Boxes(shape, boxes);
    for (size_t k = 0; k < boxes.size(); ++k) {
      shards.info(k).replica = static_cast<int64_t>(k);
    }
    const Status status = shards.Check().status();
    std::string text = ShapeText(shape);
    for (const Box& box : boxes) text += " " + BoxText(box);
    ASSERT_EQ(status.ok(), CoversOnce(shape, boxes)) << text << status;
    accepted += status.ok();
  }
  EXPECT_GT(accepted, kCases / 10);
  EXPECT_LT(accepted, kCases - kCases / 10);
}

TEST(FindOverlapTest, FirstOfAllPairs) {
  Random random(7);
  int found = 0;
  const int kCases = 5000;
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = RandomShape(random);
    const std::vector<Box> boxes = AlmostTiling(shape, random);
    std::vector<const Box*> plain;
    for (const Box& box : boxes) plain.push_back(&box);
    std::optional<std::pair<size_t, size_t>> expected;
    for (size_t a = 0; a < boxes.size() && !expected; ++a) {
      for (size_t b = a + 1; b < boxes.size() && !expected; ++b) {
        if (Intersect(boxes[a], boxes[b])) expected = {a, b};
      }
    }
    ASSERT_EQ(FindOverlap(plain), expected);
    found += expected.has_value();
  }
  EXPECT_GT(found, kCases / 10);
  EXPECT_LT(found, kCases - kCases / 10);
}

TEST(FindOverlapTest, FewBoxes) {
  const Box scalar;
  EXPECT_EQ(FindOverlap({}), std::nullopt);
  EXPECT_EQ(FindOverlap({&scalar}), std::nullopt);
  EXPECT_EQ(FindOverlap({&scalar, &scalar}),
            std::make_pair(size_t{0}, size_t{1}));
}

// Whatever all pairs say.
void ExpectFinds(const std::vector<Box>& boxes, const Box& wanted,
                 bool is_stack) {
  std::vector<const Box*> plain;
  for (const Box& box : boxes) plain.push_back(&box);
  const BoxIndex index(plain);
  EXPECT_GE(index.is_stack(), is_stack);
  BoxIndex::Positions expected;
  for (size_t k = 0; k < boxes.size(); ++k) {
    if (Intersect(boxes[k], wanted)) expected.push_back(k);
  }
  ASSERT_EQ(index.Find(wanted), expected);
}

TEST(BoxIndexTest, FindsWhatMeets) {
  Random random(8);
  for (int i = 0; i < 300; ++i) {
    const Shape shape{Uniform(1, 40, random), Uniform(1, 40, random)};
    std::vector<Box> boxes;
    for (int64_t k = Uniform(0, 60, random); k > 0; --k) {
      boxes.push_back(RandomBox(shape, random));
    }
    ExpectFinds(boxes, RandomBox(shape, random), false);
  }
}

TEST(BoxIndexTest, FindsInAStack) {
  Random random(9);
  for (int i = 0; i < 300; ++i) {
    const Shape shape{100, 3};
    const auto axis = static_cast<size_t>(i % 2);
    std::vector<Box> boxes;
    for (int64_t at = 0; at < shape[axis];) {
      Box box = WholeBox(shape);
      box.offset[axis] = at;
      box.shape[axis] =
          Uniform(0, std::min<int64_t>(9, shape[axis] - at), random);
      at += box.shape[axis] + Uniform(0, 1, random);  // gaps, and empty ones
      boxes.push_back(box);
    }
    std::shuffle(boxes.begin(), boxes.end(), random);
    ExpectFinds(boxes, RandomBox(shape, random), true);
  }
  ExpectFinds({}, WholeBox({3}), true);
  ExpectFinds({Box{}}, Box{}, true);
  ExpectFinds({Box{}, Box{}}, Box{}, false);
}

TEST(BoxIndexTest, EndOfTheLargestAxis) {
  const Box overhanging{{INT64_MAX - 5}, {100}};
  const Box low{{0}, {5}};
  const BoxIndex index({&overhanging, &low});
  EXPECT_THAT(index.Find({{INT64_MAX - 3}, {3}}), ElementsAre(0));
}

}  // namespace
}  // namespace belay::coverage_test
