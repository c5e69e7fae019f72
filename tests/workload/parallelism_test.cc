#include "workload/parallelism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace belay::parallelism_test {
namespace {

TEST(ParallelismTest, TextAndBack) {
  const Parallelism all =
      ParseParallelism("zero=1,tp=8,pp=4,dp=16,ep=2").value();
  EXPECT_EQ(all,
            (Parallelism{.tp = 8, .pp = 4, .dp = 16, .ep = 2, .zero = true}));
  EXPECT_EQ(all.num_ranks(), 512);
  EXPECT_EQ(ToString(all), "tp=8,pp=4,dp=16,ep=2,zero=1");
  EXPECT_EQ(ParseParallelism("fsdp=64,zero=0").value(),
            (Parallelism{.fsdp = 64}));
  EXPECT_EQ(ToString(Parallelism{}), "dp=1");
  EXPECT_EQ(ParseParallelism("dp=1").value(), Parallelism{});
}

TEST(ParallelismTest, NeighboursTalkMost) {
  const Parallelism cut{.tp = 2, .pp = 2, .dp = 4, .ep = 2};
  EXPECT_EQ(PlaceOf(cut, 0), RankPlace{});
  EXPECT_EQ(PlaceOf(cut, 1), (RankPlace{.tp = 1}));
  EXPECT_EQ(PlaceOf(cut, 2), (RankPlace{.dp = 1}));
  EXPECT_EQ(PlaceOf(cut, 7), (RankPlace{.tp = 1, .dp = 3}));
  EXPECT_EQ(PlaceOf(cut, 8), (RankPlace{.pp = 1}));
  EXPECT_EQ(PlaceOf(cut, 6).ep(cut), 1);
  const Parallelism hybrid{.tp = 2, .dp = 2, .fsdp = 3};
  EXPECT_EQ(PlaceOf(hybrid, 2), (RankPlace{.fsdp = 1}));
  EXPECT_EQ(PlaceOf(hybrid, 6), (RankPlace{.dp = 1}));
}

TEST(ParallelismTest, MistakesNameThePart) {
  const std::pair<std::string, std::string> mistakes[] = {
      {"", "need parts such as tp=8, found \"\""},
      {"tp=8,", "need parts such as tp=8, found \"\""},
      {"tp8", "need parts such as tp=8, found \"tp8\""},
      {"tp=8,cp=2",
       "unknown degree \"cp\" (need tp, pp, dp, fsdp, ep or zero)"},
      {"tp=0", "need tp=1 to tp=1048576, found \"tp=0\""},
      {"tp=8x", "need tp=1 to tp=1048576, found \"tp=8x\""},
      {"tp=", "need tp=1 to tp=1048576, found \"tp=\""},
      {"tp=2,tp=4", "\"tp\" appears twice"},
      {"zero=3",
       "need zero=0 or zero=1 (2 stores what 1 does, 3 is fsdp), "
       "found \"zero=3\""},
      {"dp=8,ep=3",
       "expert-parallel ranks are a part of the data-parallel "
       "ones (need an ep that divides dp=8, found ep=3)"},
      {"fsdp=8,zero=1",
       "FSDP cuts the state of the optimizer already (need "
       "zero=0 or fsdp=1, found fsdp=8)"},
      {"tp=2048,pp=1024",
       "too many ranks (need at most 1048576, found 2097152 "
       "or more)"}};
  for (const auto& [text, message] : mistakes) {
    EXPECT_EQ(ParseParallelism(text).status(),
              absl::InvalidArgumentError("parse parallelism \"" + text +
                                         "\": " + message));
  }
}

}  // namespace
}  // namespace belay::parallelism_test
