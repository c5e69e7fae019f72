#include "belay/manager/save_interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace belay::save_interval_test {
namespace {

constexpr double kDay = 86400;
// So that it never bounds.
constexpr double kAnything = 0.99;

double Interval(double save, double mtbf, double budget = kAnything) {
  return AdviseInterval(save, 0, {mtbf, budget}).value().seconds;
}

// Daly 2006, equation 37, by hand: for a save of 5 min and a failure a day
// Young's 7200 s become 7200 (1 + 0.0416667 / 3 + 0.0017361 / 9) - 300.
TEST(SaveIntervalTest, DalysOptimum) {
  EXPECT_NEAR(Interval(300, kDay), 7001.389, 0.001);
  // sqrt(2 * 60 * 86400) = 3219.938, (1 + 0.0062113 + 0.0000386), - 60
  EXPECT_NEAR(Interval(60, kDay), 3180.062, 0.001);
  // An hour between failures, saves of 10 min: sqrt(2 * 600 * 3600) = 2078.461,
  // (1 + 0.2886751 / 3 + 0.0833333 / 9), - 600
  EXPECT_NEAR(Interval(600, 3600), 1697.706, 0.001);
}

// With short saves Daly's form is Young's.
TEST(SaveIntervalTest, YoungsLimit) {
  EXPECT_NEAR(Interval(0.001, kDay) / std::sqrt(2 * 0.001 * kDay), 1, 1e-4);
  EXPECT_EQ(Interval(0, kDay), 0);
}

TEST(SaveIntervalTest, SavesThatTakeLongerThanTheTimeBetweenFailures) {
  const SaveInterval interval = *AdviseInterval(7200, 0, {3600, kAnything});
  EXPECT_THAT(interval.reason, ::testing::HasSubstr("is 3600 s"));
  EXPECT_EQ(interval.seconds, 7200 / kAnything);  // never more than all
}

TEST(SaveIntervalTest, TheBudgetBounds) {
  const SaveInterval bound = *AdviseInterval(60, 120, {kDay / 8, 0.035});
  EXPECT_DOUBLE_EQ(bound.seconds, 60 / 0.035);
  EXPECT_DOUBLE_EQ(bound.saving, 0.035);
  EXPECT_NEAR(bound.failing, (1714.286 / 2 + 120) / 10800, 1e-6);
  EXPECT_EQ(bound.reason,
            "save every 1714 s: Daly's optimum for saves of 60 s and a failure "
            "every 10800 s is 1099 s, but saves may cost at most 3.5 % of the "
            "time; expected to cost 3.5 % for saves, 9 % for failures");
  const SaveInterval free = *AdviseInterval(60, 120, {kDay, 0.035});
  EXPECT_NEAR(free.seconds, 3180.062, 0.001);
  EXPECT_LT(free.saving, 0.035);
}

// No shorter and no longer interval costs less, by the model of first order.
TEST(SaveIntervalTest, IsTheBest) {
  for (const double save : {0.1, 1.0, 30.0, 300.0}) {
    for (const double mtbf : {3600.0, kDay, 30 * kDay}) {
      const double best = Interval(save, mtbf);
      const auto cost = [&](double interval) {
        // Daly's equation 20, without restores.
        return mtbf * (std::exp((interval + save) / mtbf) - 1) / interval;
      };
      for (const double other : {0.9, 0.95, 1.05, 1.1}) {
        EXPECT_LT(cost(best), cost(other * best))
            << save << " " << mtbf << " " << other;
      }
    }
  }
}

TEST(SaveIntervalTest, BadNumbers) {
  const auto refuse = [](double save, double restore, double mtbf,
                         double budget) {
    const Status status =
        AdviseInterval(save, restore, {mtbf, budget}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refuse(-1, 0, kDay, 0.1),
            "advise an interval: times of a save and of a restore (need at "
            "least 0, found -1 and 0)");
  refuse(NAN, 0, kDay, 0.1);
  refuse(1, INFINITY, kDay, 0.1);
  EXPECT_EQ(refuse(1, 0, 0, 0.1),
            "advise an interval: mtbf_seconds and overhead_budget (need more "
            "than 0, the second below 1, found 0 and 0.1)");
  refuse(1, 0, NAN, 0.1);
  refuse(1, 0, kDay, 0);
  refuse(1, 0, kDay, 1);
  refuse(1, 0, kDay, NAN);
}

}  // namespace
}  // namespace belay::save_interval_test
