#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manager/save_decision.h"

namespace belay::time_use_test {
namespace {

using ::testing::ElementsAre;

TEST(TimeUseTest, RemembersTheLastFew) {
  std::vector<double> times;
  for (const double time : {9.0, 1.0, 2.0, -3.0, 4.0, 5.0}) {
    Remember(time, times);
  }
  EXPECT_THAT(times, ElementsAre(1, 2, 0, 4, 5));
}

TEST(TimeUseTest, WhatASaveTakes) {
  EXPECT_EQ(EstimateSaveSeconds({}), std::nullopt);
  EXPECT_EQ(EstimateSaveSeconds({.restore = 3}), 3);
  EXPECT_EQ(EstimateSaveSeconds({.saves = {7}, .restore = 3}), 7);
  EXPECT_EQ(EstimateSaveSeconds({.saves = {7, 1, 90}}), 7);
}

TEST(TimeUseTest, WhenToStop) {
  EXPECT_EQ(SecondsToStop({}, 30), 30);
  EXPECT_EQ(SecondsToStop({.restore = 4}, 30), 36);
  EXPECT_EQ(SecondsToStop({.saves = {1, 10, 2}, .steps = {5, 1}}, 30),
            30 + 15 + 10);
}

TEST(TimeUseTest, TheLastSaveIsLeftOut) {
  EXPECT_EQ(AgainstLastSave({}, 0), "");  // nobody knows
  EXPECT_EQ(AgainstLastSave({.saves = {10}}, std::nullopt), "");
  EXPECT_EQ(AgainstLastSave({.saves = {10}}, 10), "");
  EXPECT_EQ(AgainstLastSave({.saves = {12.34, 10, 20}}, 8.5),
            "the time limit comes before its end (need 12.3 s, found 8.5 s)");
  EXPECT_EQ(AgainstLastSave({.saves = {10}}, -3),
            "the time limit comes before its end (need 10 s, found 0 s)");
}

TEST(TimeUseTest, TheInterval) {
  const AutoInterval with{.mtbf_seconds = 86400, .overhead_budget = 0.5};
  EXPECT_FALSE(IntervalFor({}, with).value().has_value());
  EXPECT_NEAR(IntervalFor({.saves = {60}}, with).value()->seconds, 3180.06,
              0.01);
  EXPECT_NEAR(IntervalFor({.restore = 60}, with).value()->seconds, 3180.06,
              0.01);
  // What a save costs the loop counts, not what it takes: in the background
  // less, else more.
  const TimeUse use{.saves = {600}, .cost = 60, .in_background = true};
  EXPECT_NEAR(IntervalFor(use, with).value()->seconds, 3180.06, 0.01);
  for (const TimeUse& waits : {TimeUse{.saves = {40}, .cost = 60},
                               TimeUse{.saves = {60}, .cost = 10}}) {
    EXPECT_NEAR(IntervalFor(waits, with).value()->seconds, 3180.06, 0.01);
  }
  // But no more than ten times that.
  EXPECT_EQ(IntervalFor({.saves = {6}, .cost = 1000}, with).value()->seconds,
            IntervalFor({.saves = {60}}, with).value()->seconds);
  const AutoInterval often{.mtbf_seconds = 10, .overhead_budget = 0.5};
  EXPECT_EQ(IntervalFor(use, often).value()->seconds, 600);
  EXPECT_FALSE(IntervalFor({.restore = 60}, {.mtbf_seconds = -1}).ok());
}

}  // namespace
}  // namespace belay::time_use_test
