#include <array>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "graph/graph_match.h"
#include "graph_testing.h"

namespace belay::attribute_fit_test {
namespace {

using ::testing::ElementsAre;

const std::string kEnd = "/.ATTRIBUTES/VARIABLE_VALUE";

// A container takes the stored length, whatever the tolerance, and no other
// dtype.
TEST(AttributeFitTest, AContainerTakesTheStoredLength) {
  std::vector<float> two(2), other(2), one(1);
  std::vector<double> wide(1);
  Thing saved{.children = {{"v", two}, {"w", other}}};
  Thing root{.children = {{"v", one}, {"w", wide}}};
  const LiveGraph live = Tracked(root);
  Restorer restorer;
  Restoration restoration = restorer.Ask(Tracked(saved).graph);
  const MatchResult match =
      MatchObjects(restoration, live, restorer.restored, 0);
  EXPECT_THAT(ReadsOf(live, match), ElementsAre("v" + kEnd + " <- v" + kEnd));
  ASSERT_EQ(match.rank_match.mismatches.size(), 1);
  EXPECT_EQ(match.rank_match.mismatches[0].needed, "f64 [2]");
  EXPECT_TRUE(match.rank_match.conversions.empty());
}

TEST(AttributeFitTest, WhatMayDiffer) {
  std::array<float, 2> two = {};
  std::array<float, 1> one = {};
  std::array<double, 1> wide = {};
  std::string text;
  const auto matched = [](const ObjectRef& saved, const ObjectRef& root,
                          Tolerance tolerance) {
    Thing stored{.children = {{"v", saved}}};
    const Restoration restoration{.saved = Tracked(stored).graph};
    Thing holder{.children = {{"v", root}}};
    const LiveGraph live = Tracked(holder);
    const MatchResult match =
        MatchObjects(restoration, live, {}, 0,
                     std::vector<RestoreChoice>(live.values.size(),
                                                {.tolerance = tolerance}));
    EXPECT_EQ(match.reads.size() + match.rank_match.mismatches.size(), 1);
    return match.rank_match;
  };
  const Tolerance dtype{.dtype = true}, lengths{.lengths = true};
  const TrackedValue matrix(Shape{1, 1}, one);
  EXPECT_EQ(matched(two, one, lengths).conversions.size(), 1);
  EXPECT_EQ(matched(two, one, dtype).mismatches.size(), 1);
  EXPECT_EQ(matched(one, wide, dtype).conversions.size(), 1);
  EXPECT_EQ(matched(one, wide, lengths).mismatches.size(), 1);
  EXPECT_EQ(matched(two, wide, {true, true}).conversions.size(), 1);
  EXPECT_EQ(matched(one, matrix, {true, true}).mismatches.size(), 1);
  EXPECT_EQ(matched(text, wide, {true, true}).mismatches.size(), 1);
  EXPECT_EQ(matched(one, one, {true, true}).conversions.size(), 0);
  // Nothing would be restored.
  std::array<float, 0> none = {};
  EXPECT_EQ(matched(two, none, lengths).mismatches.size(), 1);
  EXPECT_EQ(matched(none, two, lengths).mismatches.size(), 1);
}

TEST(AttributeFitTest, AdviceIsOfWhatDiffers) {
  const auto advice = [](std::string needed, std::string found) {
    return MismatchAdvice({{.key = "v", .needed = needed, .found = found}});
  };
  const std::string casts = "RestoreOptions.allow_dtype_cast converts numbers";
  const std::string cuts =
      "RestoreOptions.allow_shape_mismatch restores what both shapes have in "
      "common";
  const std::string none =
      "no option converts \"v\": the program needs a value of the stored type";
  EXPECT_EQ(advice("f32 []", "f64 []"), casts);
  EXPECT_EQ(advice("f32 [2, 3]", "f32 [4, 3]"), cuts);
  EXPECT_EQ(advice("f32 [2]", "i64 [3]"), casts + "; " + cuts);
  EXPECT_EQ(advice("f32 [2]", "f32 [2, 1]"), none);  // other axes
  EXPECT_EQ(advice("f32 [2]", "f32 [0]"), none);     // nothing in common
  EXPECT_EQ(advice("f32 [2]", "c64 [2]"), none);     // would lose a part
  EXPECT_EQ(advice("f32 [2]", "string []"), none);
  EXPECT_EQ(advice("f32 [2]", "type sparse"), none);
  EXPECT_EQ(
      MismatchAdvice({{.key = "a", .needed = "f32 [2]", .found = "f64 [2]"},
                      {.key = "v", .needed = "f32 []", .found = "c64 []"}}),
      casts + "; " + none);
  EXPECT_EQ(MismatchAdvice({}), "");
}

}  // namespace
}  // namespace belay::attribute_fit_test
