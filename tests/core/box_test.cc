#include "belay/arrays/box.h"

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/hash/hash_testing.h"
#include "box_oracle.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belay::box_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::set<Position> ElementSet(const Box& box) {
  const std::vector<Position> elements = Elements(box);
  return {elements.begin(), elements.end()};
}

Status BadShape(const std::string& text, const std::string& cause) {
  return absl::InvalidArgumentError("check shape \"" + text + "\": " + cause);
}

TEST(BoxTest, CountsElements) {
  const std::vector<std::pair<Shape, int64_t>> rows = {
      {{}, 1},
      {{0}, 0},
      {{7}, 7},
      {{4, 3, 5}, 60},
      {{4, 0, 5}, 0},
      {{kMax}, kMax},
      {{1, kMax}, kMax},
      {{7, 1317624576693539401}, kMax},
      {{int64_t{1} << 31, (int64_t{1} << 31) - 1, 2}, 9223372032559808512},
      // Empty arrays may have lengths whose product overflows.
      {{kMax, kMax, 0}, 0},
      {{0, kMax, kMax}, 0}};
  for (const auto& [shape, count] : rows) {
    SCOPED_TRACE(ShapeText(shape));
    const StatusOr<int64_t> checked = CheckedNumElements(shape);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(*checked, count);
    EXPECT_EQ(NumElements(shape), count);
  }
}

TEST(BoxTest, RefusesShapesThatAreNegativeOrTooLarge) {
  EXPECT_EQ(CheckedNumElements({4, -1}).status(),
            BadShape("[4, -1]",
                     "length of axis 1 is negative (need 0 or "
                     "more, found -1)"));
  EXPECT_EQ(CheckedNumElements({-2, 0}).status(),
            BadShape("[-2, 0]",
                     "length of axis 0 is negative (need 0 or "
                     "more, found -2)"));
  const std::string too_many =
      "too many elements (need at most 9223372036854775807)";
  EXPECT_EQ(CheckedNumElements({kMax, 2}).status(),
            BadShape("[9223372036854775807, 2]", too_many));
  EXPECT_EQ(CheckedNumElements({int64_t{1} << 32, int64_t{1} << 31}).status(),
            BadShape("[4294967296, 2147483648]", too_many));
  // 2^64: the product would wrap to 0.
  EXPECT_EQ(CheckedNumElements({int64_t{1} << 32, int64_t{1} << 32}).status(),
            BadShape("[4294967296, 4294967296]", too_many));
}

TEST(BoxTest, WholeBoxAndEmptiness) {
  EXPECT_EQ(WholeBox({4, 3}), (Box{{0, 0}, {4, 3}}));
  EXPECT_EQ(WholeBox({}), Box{});
  EXPECT_FALSE(belay::IsEmpty(Box{}));
  EXPECT_FALSE(belay::IsEmpty({{1, 2}, {1, 1}}));
  EXPECT_TRUE(belay::IsEmpty({{1, 2}, {1, 0}}));
  EXPECT_TRUE(belay::IsEmpty({{0, 0}, {0, 3}}));
}

TEST(BoxTest, CheckBoxTakesWhatLiesInside) {
  EXPECT_EQ(CheckBox({}, {}), absl::OkStatus());
  EXPECT_EQ(CheckBox({{0, 0}, {4, 3}}, {4, 3}), absl::OkStatus());
  EXPECT_EQ(CheckBox({{3, 2}, {1, 1}}, {4, 3}), absl::OkStatus());
  EXPECT_EQ(CheckBox({{4, 0}, {0, 3}}, {4, 3}), absl::OkStatus());
  EXPECT_EQ(CheckBox({{0}, {0}}, {0}), absl::OkStatus());
  EXPECT_EQ(CheckBox({{kMax - 1}, {1}}, {kMax}), absl::OkStatus());
}

TEST(BoxTest, CheckBoxNamesWhatIsWrong) {
  struct Row {
    Box box;
    Shape shape;
    Status want;
  };
  const std::vector<Row> rows = {
      {{{0}, {4}},
       {4, 3},
       absl::InvalidArgumentError(
           "check box \"0,4\": wrong number of axes (need 2, found 1)")},
      {{{0, 0}, {4}},
       {4, 3},
       absl::InvalidArgumentError(
           "check box \"0,4\": wrong number of axes (need 2, found 1)")},
      {{},
       {4},
       absl::InvalidArgumentError(
           "check box \"\": wrong number of axes (need 1, found 0)")},
      {{{0, -1}, {4, 1}},
       {4, 3},
       absl::InvalidArgumentError("check box \"0,4:-1,1\": offset of axis 1 is "
                                  "negative (need 0 or more, found -1)")},
      {{{0}, {-4}},
       {4},
       absl::InvalidArgumentError("check box \"0,-4\": length of axis 0 is "
                                  "negative (need 0 or more, found -4)")},
      {{{0}, {0}},
       {-4},
       absl::InvalidArgumentError("check box \"0,0\": array length of axis 0 "
                                  "is negative (need 0 or more, found -4)")},
      {{{0, 1}, {4, 3}},
       {4, 3},
       absl::OutOfRangeError("check box \"0,4:1,3\": box reaches past axis 1 "
                             "of [4, 3] (need 4, found 3)")},
      {{{5}, {0}},
       {4},
       absl::OutOfRangeError("check box \"5,0\": box reaches past axis 0 of "
                             "[4] (need 5, found 4)")},
      {{{kMax}, {kMax}},
       {4},
       absl::OutOfRangeError(
           "check box \"9223372036854775807,9223372036854775807\": box reaches "
           "past axis 0 of [4] (need 18446744073709551614, found 4)")}};
  for (const Row& row : rows) {
    EXPECT_EQ(CheckBox(row.box, row.shape), row.want);
  }
}

TEST(BoxTest, IntersectWorkedCases) {
  EXPECT_EQ(Intersect({{0, 0}, {4, 3}}, {{1, 2}, {5, 5}}),
            (Box{{1, 2}, {3, 1}}));
  EXPECT_EQ(Intersect({{0}, {4}}, {{4}, {2}}), std::nullopt);  // touch
  EXPECT_EQ(Intersect({{0, 0}, {4, 3}}, {{1, 5}, {1, 1}}), std::nullopt);
  EXPECT_EQ(Intersect({{0}, {4}}, {{2}, {0}}), std::nullopt);  // empty
  EXPECT_EQ(Intersect(Box{}, Box{}), Box{});
  // A chunk may hang over an array that ends near 2^63.
  EXPECT_EQ(Intersect({{kMax - 1}, {1}}, {{kMax - 4}, {100}}),
            (Box{{kMax - 1}, {1}}));
}

TEST(BoxTest, SubtractWorkedCases) {
  const Box a = {{0, 0}, {4, 6}};
  EXPECT_THAT(Subtract(a, {{1, 2}, {2, 3}}),
              ElementsAre(Box{{0, 0}, {1, 6}}, Box{{3, 0}, {1, 6}},
                          Box{{1, 0}, {2, 2}}, Box{{1, 5}, {2, 1}}));
  EXPECT_THAT(Subtract(a, a), IsEmpty());
  EXPECT_THAT(Subtract(a, {{4, 0}, {1, 6}}), ElementsAre(a));
  EXPECT_THAT(Subtract(a, {{1, 1}, {0, 3}}), ElementsAre(a));
  EXPECT_THAT(Subtract({{0}, {0}}, {{0}, {4}}), IsEmpty());
  EXPECT_THAT(Subtract(Box{}, Box{}), IsEmpty());
}

TEST(BoxTest, ContainsWorkedCases) {
  const Box outer = {{1, 1}, {3, 3}};
  EXPECT_TRUE(Contains(outer, outer));
  EXPECT_TRUE(Contains(outer, {{2, 3}, {2, 1}}));
  EXPECT_FALSE(Contains(outer, {{0, 1}, {1, 1}}));
  EXPECT_FALSE(Contains(outer, {{1, 3}, {1, 2}}));
  EXPECT_TRUE(Contains(outer, {{9, 9}, {0, 1}}));  // nothing to contain
  EXPECT_FALSE(Contains({{1, 1}, {0, 3}}, {{1, 1}, {1, 1}}));
  EXPECT_TRUE(Contains(Box{}, Box{}));
  EXPECT_TRUE(Contains({{kMax - 4}, {100}}, {{kMax - 1}, {1}}));
}

TEST(BoxTest, SetOperationsAgreeWithElementSets) {
  Rng rng(1);
  int num_overlaps = 0;
  int num_contained = 0;
  for (int round = 0; round < 3000; ++round) {
    const Shape shape = DrawShape(rng, 4, 5);
    const Box a = DrawBox(rng, shape);
    const Box b = DrawBox(rng, shape);
    SCOPED_TRACE(FormatSliceSpec(shape, a) + " and " + BoxText(b));
    const std::set<Position> a_set = ElementSet(a);
    const std::set<Position> b_set = ElementSet(b);
    std::set<Position> common;
    std::set<Position> rest;
    for (const Position& i : a_set) (b_set.count(i) ? common : rest).insert(i);

    const std::optional<Box> both = Intersect(a, b);
    ASSERT_EQ(both.has_value(), !common.empty());
    EXPECT_EQ(both ? ElementSet(*both) : std::set<Position>(), common);
    EXPECT_EQ(Intersect(b, a), both);
    EXPECT_EQ(Contains(b, a), rest.empty());
    EXPECT_EQ(NumElements(a.shape), static_cast<int64_t>(a_set.size()));
    EXPECT_EQ(belay::IsEmpty(a), a_set.empty());

    std::set<Position> seen;
    const std::vector<Box> pieces = Subtract(a, b);
    EXPECT_LE(pieces.size(), shape.empty() ? 1 : 2 * shape.size());
    for (const Box& piece : pieces) {
      EXPECT_FALSE(belay::IsEmpty(piece));
      for (const Position& i : Elements(piece)) {
        EXPECT_TRUE(seen.insert(i).second) << "in two pieces";
      }
    }
    EXPECT_EQ(seen, rest);
    num_overlaps += !common.empty() && !rest.empty();
    num_contained += !a_set.empty() && rest.empty();
  }
  EXPECT_GT(num_overlaps, 300);  // the draw reaches the cases that matter
  EXPECT_GT(num_contained, 100);
}

TEST(BoxTest, Text) {
  EXPECT_EQ(ShapeText({}), "[]");
  EXPECT_EQ(ShapeText({4}), "[4]");
  EXPECT_EQ(ShapeText({4, 3}), "[4, 3]");
  EXPECT_EQ(BoxText({}), "");
  EXPECT_EQ(BoxText({{0, 1, 3}, {4, 1, 2}}), "0,4:1,1:3,2");
}

TEST(BoxTest, HashAgreesWithEquality) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {Box{}, Box{{0}, {1}}, Box{{1}, {0}}, Box{{0, 1}, {2, 3}},
       Box{{0, 1}, {3, 2}}, Box{{0, 0, 0}, {1, 1, 1}}}));
}

TEST(SliceSpecTest, Formats) {
  EXPECT_EQ(FormatSliceSpec({4, 3, 5}, {{0, 1, 3}, {4, 1, 2}}),
            "4 3 5 0,4:1,1:3,2");
  EXPECT_EQ(FormatSliceSpec({7}, {{7}, {0}}), "7 7,0");
  EXPECT_EQ(FormatSliceSpec({}, {}), "");
}

TEST(SliceSpecTest, ParsesBothFormsOfAnAxis) {
  struct Row {
    std::string_view text;
    Shape full_shape;
    Box box;
  };
  const std::vector<Row> rows = {
      {"4 3 5 0,4:1,1:3,2", {4, 3, 5}, {{0, 1, 3}, {4, 1, 2}}},
      {"4 3 -:1,1", {4, 3}, {{0, 1}, {4, 1}}},
      {"4 3 -:-", {4, 3}, {{0, 0}, {4, 3}}},
      {"0 -", {0}, {{0}, {0}}},
      {"4 4,0", {4}, {{4}, {0}}},
      {"", {}, {}},
      {" ", {}, {}},  // what TensorFlow writes for a scalar
      {"  4 0,4 ", {4}, {{0}, {4}}},
      {"9223372036854775807 9223372036854775806,1", {kMax}, {{kMax - 1}, {1}}}};
  for (const Row& row : rows) {
    const StatusOr<SliceSpec> spec = ParseSliceSpec(row.text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->full_shape, row.full_shape) << row.text;
    EXPECT_EQ(spec->box, row.box) << row.text;
  }
}

TEST(SliceSpecTest, RoundTrip) {
  Rng rng(2);
  for (int round = 0; round < 1000; ++round) {
    const Shape shape = DrawShape(rng, 5, round % 2 == 0 ? 6 : 4000);
    const Box box = DrawBox(rng, shape);
    const std::string text = FormatSliceSpec(shape, box);
    const StatusOr<SliceSpec> spec = ParseSliceSpec(text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->full_shape, shape) << text;
    EXPECT_EQ(spec->box, box) << text;
  }
}

TEST(SliceSpecTest, RefusesMalformedText) {
  const std::string no_number =
      " is not a number from 0 to 9223372036854775807";
  const std::string no_axis = " is not \"-\" or \"offset,length\"";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"4", "no box after the shape (need 2 parts or more, found 1)"},
      {"-", "no box after the shape (need 2 parts or more, found 1)"},
      {"x 0,1", "\"x\"" + no_number},
      {"4  0,1", "\"\"" + no_number},  // two blanks
      {"4\t0,1 0,1", "\"4\t0,1\"" + no_number},
      {"-4 0,1", "\"-4\"" + no_number},
      {"+4 0,1", "\"+4\"" + no_number},
      {"4.0 0,1", "\"4.0\"" + no_number},
      {"0x4 0,1", "\"0x4\"" + no_number},
      {"9223372036854775808 0,1", "\"9223372036854775808\"" + no_number},
      {"4 3", "\"3\"" + no_axis},
      {"4 1,2,3", "\"1,2,3\"" + no_axis},
      {"4 --", "\"--\"" + no_axis},
      {"4 3 0,4:", "\"\"" + no_axis},
      {"4 ,4", "\"\"" + no_number},
      {"4 0,", "\"\"" + no_number},
      {"4 -1,2", "\"-1\"" + no_number},
      {"4 -0,2", "\"-0\"" + no_number},
      {"4 0,-2", "\"-2\"" + no_number},
      {"4 0,99999999999999999999", "\"99999999999999999999\"" + no_number},
      {"4 3 0,4", "wrong number of axes (need 2, found 1)"},
      {"4 0,4:0,3", "wrong number of axes (need 1, found 2)"},
      {"4294967296 2147483648 -:-",
       "too many elements (need at most 9223372036854775807)"}};
  for (const auto& [text, cause] : rows) {
    EXPECT_EQ(ParseSliceSpec(text).status(),
              absl::InvalidArgumentError("parse slice spec \"" + text +
                                         "\": " + cause));
  }
}

TEST(SliceSpecTest, RefusesBoxesThatLeaveTheShape) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"4 0,5", "axis 0 of [4] (need 5, found 4)"},
      {"4 3 0,4:2,2", "axis 1 of [4, 3] (need 4, found 3)"},
      {"4 5,0", "axis 0 of [4] (need 5, found 4)"},
      {"0 0,1", "axis 0 of [0] (need 1, found 0)"},
      // offset + length leaves int64.
      {"9223372036854775807 9223372036854775807,1",
       "axis 0 of [9223372036854775807] (need 9223372036854775808, found "
       "9223372036854775807)"},
      {"4 9223372036854775807,9223372036854775807",
       "axis 0 of [4] (need 18446744073709551614, found 4)"}};
  for (const auto& [text, cause] : rows) {
    EXPECT_EQ(ParseSliceSpec(text).status(),
              absl::OutOfRangeError("parse slice spec \"" + text +
                                    "\": box reaches past " + cause));
  }
}

}  // namespace
}  // namespace belay::box_test
