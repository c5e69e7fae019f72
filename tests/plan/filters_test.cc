#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/chunks.h"

namespace belay::filters_test {
namespace {

using ::testing::HasSubstr;

TEST(FiltersTest, TextAndBack) {
  const std::vector<std::vector<Filter>> all = {
      {},
      Deflate(),
      Deflate(9),
      {{.id = 3}},
      {{32015, {3}}, {65535, {0, 4294967295U, 7}}, {.id = 2}}};
  for (const std::vector<Filter>& filters : all) {
    const auto parsed = ParseFilters(FiltersText(filters));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, filters);
  }
  EXPECT_EQ(FiltersText(Deflate(6)), "2(),1(6)");
  EXPECT_EQ(FiltersText(all.back()), "32015(3),65535(0,4294967295,7),2()");
}

TEST(FiltersTest, TextForPeople) {
  EXPECT_EQ(DescribeFilters(Deflate(4)), "shuffle, deflate(4)");
  EXPECT_EQ(DescribeFilters({{32015, {3, 1}}, {.id = 3}}),
            "filter 32015(3,1), fletcher32");
  EXPECT_EQ(DescribeFilters({}), "");
}

TEST(FiltersTest, DamagedTexts) {
  for (const char* text :
       {"2", "2(", "2()1(6)", "2(),", ",2()", "1(10)", "1()", "0()", "65536()",
        "-1()",

        "1(6", "1(,6)", "2(1,)", "x", "2() ", "3(4294967296)", "2(-1)",
        "99999999999999999999()"}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseFilters(text).status())) << text;
  }
}

TEST(FiltersTest, Checks) {
  EXPECT_TRUE(CheckFilters(Deflate(0)).ok());
  EXPECT_TRUE(CheckFilters(Deflate(9)).ok());
  const auto error = [](const std::vector<Filter>& filters) {
    const Status status = CheckFilters(filters);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error(Deflate(10)), HasSubstr("found 1(10)"));
  EXPECT_THAT(error({{.id = -5}}), HasSubstr("found -5"));
  EXPECT_THAT(error({{300, std::vector<uint32_t>(65)}}), HasSubstr("found 65"));
  EXPECT_THAT(error(std::vector<Filter>(33, Filter{.id = 2})),
              HasSubstr("found 33"));
  EXPECT_THAT(error({{1, {1}}, {.id = 2}, {1, {1}}}),
              HasSubstr("deflate, is given several times"));
  EXPECT_THAT(error({{4, {32, 16}}}), HasSubstr("filter 4, szip, "));
  EXPECT_THAT(error({{.id = 5}}), HasSubstr("filter 5, nbit, "));
  EXPECT_THAT(error({{6, {2, 0}}}), HasSubstr("filter 6, scaleoffset, "));
}

// Checkpoints that have them are read all the same.
TEST(FiltersTest, WhatIsRefusedTodayCanBeRead) {
  for (const char* text : {"4(32,16)", "5()", "6(2,0)", "1(1),1(1)"}) {
    const auto parsed = ParseFilters(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(FiltersText(*parsed), text);
    EXPECT_FALSE(CheckFilters(*parsed).ok());
  }
}

TEST(FiltersTest, OnlyHdf5sOwnAreKnownToBeLossless) {
  EXPECT_TRUE(AreLossless({}));
  EXPECT_TRUE(AreLossless(Deflate()));
  EXPECT_TRUE(AreLossless({{.id = 3}}));
  EXPECT_FALSE(AreLossless({{.id = 2}, {32015, {3}}}));
}

}  // namespace
}  // namespace belay::filters_test
