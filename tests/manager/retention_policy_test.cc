#include "belay/manager/retention_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace belay::retention_policy_test {
namespace {

using ::testing::ElementsAre;
using Steps = std::vector<int64_t>;

constexpr double kHour = 3600;

std::vector<StepRecord> Records(const Steps& steps) {
  std::vector<StepRecord> records;
  for (const int64_t step : steps) {
    records.push_back({.step = step, .time = static_cast<double>(step)});
  }
  return records;
}

// Numbered from 0; one loss each, none where it is not set.
std::vector<StepRecord> WithLoss(
    const std::vector<std::optional<double>>& losses) {
  std::vector<StepRecord> records;
  for (const auto& loss : losses) {
    StepRecord record{.step = static_cast<int64_t>(records.size())};
    if (loss) record.metrics = Metrics{{"loss", *loss}};
    records.push_back(record);
  }
  return records;
}

Steps Kept(const PreservationPolicy& policy,
           const std::vector<StepRecord>& records, double now = 0) {
  const auto flags = ApplyPreservation(policy, records, now);
  EXPECT_EQ(flags.status(), absl::OkStatus());
  Steps kept;
  for (size_t i = 0; flags.ok() && i < records.size(); ++i) {
    if ((*flags)[i]) kept.push_back(records[i].step);
  }
  return kept;
}

Status ErrorOf(const PreservationPolicy& policy) {
  return ApplyPreservation(policy, {}, 0).status();
}

const Steps kScattered = {0, 1, 2, 4, 5, 8, 9, 13, 14, 25};

TEST(RetentionPolicyTest, PreserveAll) {
  EXPECT_EQ(Kept(PreserveAll(), Records(kScattered)), kScattered);
}

TEST(RetentionPolicyTest, LatestN) {
  const auto steps = Records({0, 1, 2, 3, 4});
  EXPECT_THAT(Kept(LatestN(3), steps), ElementsAre(2, 3, 4));
  EXPECT_THAT(Kept(LatestN(5), steps), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Kept(LatestN(9), steps), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Kept(LatestN(0), steps), ElementsAre());
  EXPECT_THAT(Kept(LatestN(std::nullopt), steps), ElementsAre(0, 1, 2, 3, 4));
}

TEST(RetentionPolicyTest, EveryNSeconds) {
  const auto steps = Records({0, 1, 2, 3, 4});
  EXPECT_THAT(Kept(EveryNSeconds(1), steps), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Kept(EveryNSeconds(3), steps), ElementsAre(0, 3));
  EXPECT_THAT(Kept(EveryNSeconds(6), steps), ElementsAre(0));
}

// As of a clock that was ahead, then right.
TEST(RetentionPolicyTest, ATimeThatGoesBackIsAReset) {
  const std::vector<StepRecord> steps = {
      {.step = 0, .time = 30 * kHour},  {.step = 1, .time = 30.5 * kHour},
      {.step = 2, .time = 31 * kHour},  {.step = 3, .time = 0},
      {.step = 4, .time = 0.5 * kHour}, {.step = 5, .time = kHour},
      {.step = 6, .time = 1.5 * kHour}};
  EXPECT_THAT(Kept(EveryNSeconds(kHour), steps), ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(Kept(LatestDuration(kHour), steps, 2 * kHour),
              ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(RetentionPolicyTest, EveryNSteps) {
  const auto few = Records({0, 1, 2, 4});
  EXPECT_THAT(Kept(EveryNSteps(3), few), ElementsAre(0));
  EXPECT_THAT(Kept(EveryNSteps(3, {.exact = false}), few), ElementsAre(0, 4));
  const auto steps = Records(kScattered);
  EXPECT_THAT(Kept(EveryNSteps(3, {.exact = false}), steps),
              ElementsAre(0, 4, 8, 13, 25));
  EXPECT_THAT(Kept(EveryNSteps(3, {.exact = false, .max_to_keep = 3}), steps),
              ElementsAre(8, 13, 25));
  EXPECT_THAT(
      Kept(EveryNSteps(1, {.max_to_keep = 3}), Records({0, 1, 2, 3, 4})),
      ElementsAre(2, 3, 4));
}

// Elsewhere a maximum of 0 keeps everything.
TEST(RetentionPolicyTest, MendsMaximumOfZero) {
  const auto steps = Records(kScattered);
  EXPECT_THAT(Kept(EveryNSteps(1, {.max_to_keep = 0}), steps), ElementsAre());
  EXPECT_THAT(Kept(EveryNStepsClosest(1, 0), steps), ElementsAre());
}

TEST(RetentionPolicyTest, EveryNStepsClosest) {
  const auto steps = Records(kScattered);
  EXPECT_THAT(Kept(EveryNStepsClosest(3), steps),
              ElementsAre(0, 4, 5, 9, 13, 14, 25));
  EXPECT_THAT(Kept(EveryNStepsClosest(3, 3), steps), ElementsAre(13, 14, 25));
  // 2 and 6 are as far from 0 or 4 as from 4 or 8; 0 and 8 are even multiples.
  EXPECT_THAT(Kept(EveryNStepsClosest(4), Records({2})), ElementsAre(2));
  EXPECT_THAT(Kept(EveryNStepsClosest(4), Records({1, 2, 5, 6})),
              ElementsAre(1, 5, 6));
  EXPECT_THAT(Kept(EveryNStepsClosest(INT64_MAX), Records({0, INT64_MAX})),
              ElementsAre(0, INT64_MAX));
}

// The rule as it is written in the documentation of Orbax, in floating point.
TEST(RetentionPolicyTest, EveryNStepsClosestIsTheRuleForAnySteps) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    const auto n = static_cast<int64_t>(1 + random() % 7);
    Steps steps;
    for (int64_t step = 0; step < 60; ++step) {
      if (random() % 3 == 0) steps.push_back(step);
    }
    Steps expected;
    for (size_t i = 0; i < steps.size(); ++i) {
      const double k = std::nearbyint(static_cast<double>(steps[i]) / n);
      bool keep = true;
      for (size_t j = 0; j < steps.size(); ++j) {
        if (std::nearbyint(static_cast<double>(steps[j]) / n) != k) continue;
        const double mine = std::abs(steps[i] - k * n);
        const double other = std::abs(steps[j] - k * n);
        keep = keep && (mine < other || (mine == other && j <= i));
      }
      if (keep || i + 1 == steps.size()) expected.push_back(steps[i]);
    }
    EXPECT_EQ(Kept(EveryNStepsClosest(n), Records(steps)), expected);
  }
}

TEST(RetentionPolicyTest, CustomSteps) {
  EXPECT_THAT(Kept(CustomSteps({14, 13}), Records({0, 1, 2, 3, 4})),
              ElementsAre());
  EXPECT_THAT(Kept(CustomSteps({14, 13, 14}), Records(kScattered)),
              ElementsAre(13, 14));
}

TEST(RetentionPolicyTest, BestN) {
  EXPECT_THAT(Kept(BestN("loss", {.n = 1, .mode = BestMode::kMin}),
                   WithLoss({7, {}, 4, {}, 5})),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(Kept(BestN("loss", {.n = 4,
                                  .mode = BestMode::kMin,
                                  .keep_checkpoints_without_metrics = false}),
                   WithLoss({5, {}, 4, {}, 7})),
              ElementsAre(0, 2, 4));
  const auto steps = WithLoss({5, 2, 4, 3, 7});
  EXPECT_THAT(Kept(BestN("loss", {.n = 2}), steps), ElementsAre(0, 4));
  EXPECT_THAT(Kept(BestN("loss", {.n = 2, .mode = BestMode::kMin}), steps),
              ElementsAre(1, 3));
  EXPECT_THAT(Kept(BestN("loss", {.n = 0}), steps), ElementsAre());
  EXPECT_THAT(Kept(BestN("loss", {}), steps), ElementsAre(0, 1, 2, 3, 4));
  const auto function = [](const Metrics& metrics) {
    return -metrics.at("loss");
  };
  EXPECT_THAT(Kept(BestN(function, {.n = 2}), steps), ElementsAre(1, 3));
}

// No more steps than n: also those without metrics stay.
TEST(RetentionPolicyTest, BestNWithFewSteps) {
  EXPECT_THAT(
      Kept(BestN("loss", {.n = 3, .keep_checkpoints_without_metrics = false}),
           WithLoss({5, {}, 4})),
      ElementsAre(0, 1, 2));
}

TEST(RetentionPolicyTest, OfEquallyGoodStepsTheLaterStay) {
  const auto steps = WithLoss({1, 2, 2, 2, 1});
  EXPECT_THAT(Kept(BestN("loss", {.n = 2}), steps), ElementsAre(2, 3));
  EXPECT_THAT(Kept(BestN("loss", {.n = 1, .mode = BestMode::kMin}), steps),
              ElementsAre(4));
}

TEST(RetentionPolicyTest, WhatIsNotANumberIsWorst) {
  const auto steps = WithLoss({NAN, 1, NAN, -INFINITY, INFINITY});
  EXPECT_THAT(Kept(BestN("loss", {.n = 3}), steps), ElementsAre(1, 3, 4));
  EXPECT_THAT(Kept(BestN("loss", {.n = 1, .mode = BestMode::kMin}), steps),
              ElementsAre(3));
}

TEST(RetentionPolicyTest, AnotherMetricIsNone) {
  EXPECT_THAT(Kept(BestN("accuracy", {.n = 1}), WithLoss({1, 2})),
              ElementsAre(0, 1));
  EXPECT_THAT(
      Kept(BestN("accuracy", {.n = 1,
                              .mode = BestMode::kMax,
                              .keep_checkpoints_without_metrics = false}),
           WithLoss({1, 2})),
      ElementsAre());
}

TEST(RetentionPolicyTest, LatestDuration) {
  const double now = 100 * kHour;
  std::vector<StepRecord> steps;
  for (const double age : {30, 25, 23, 10}) {
    steps.push_back({.step = static_cast<int64_t>(steps.size()),
                     .time = now - age * kHour});
  }
  EXPECT_THAT(Kept(LatestDuration(24 * kHour), steps, now), ElementsAre(2, 3));
  EXPECT_THAT(Kept(LatestDuration(28 * kHour), steps, now),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(Kept(LatestDuration(5 * kHour), steps, now), ElementsAre());
  EXPECT_THAT(Kept(LatestDuration(100 * kHour), steps, now),
              ElementsAre(0, 1, 2, 3));
}

TEST(RetentionPolicyTest, AnyOfPolicies) {
  const auto steps = WithLoss({5, 2, 4, 3, 7, 10, 11, 9, 8, 6, 12, 1});
  EXPECT_THAT(
      Kept(AnyOfPolicies({BestN("loss", {.n = 2, .mode = BestMode::kMin}),
                          EveryNSteps(4), CustomSteps({0, 3})}),
           steps),
      ElementsAre(0, 1, 3, 4, 8, 11));
}

TEST(RetentionPolicyTest, AUsersOwnPolicy) {
  const PreservationPolicy odd{
      .description = "odd",
      .parameters = {},
      .keep = [](const std::vector<StepRecord>& steps, double) {
        std::vector<bool> flags;
        for (const StepRecord& step : steps) flags.push_back(step.step % 2);
        return flags;
      }};
  EXPECT_THAT(Kept(AnyOfPolicies({odd, LatestN(1)}), Records({1, 2, 3, 4})),
              ElementsAre(1, 3, 4));
}

TEST(RetentionPolicyTest, NothingIsKeptOfNothing) {
  for (const PreservationPolicy& policy :
       {PreserveAll(), LatestN(3), EveryNSeconds(1), EveryNSteps(1),
        EveryNStepsClosest(2), CustomSteps({1}), BestN("loss", {.n = 1}),
        LatestDuration(1), AnyOfPolicies({LatestN(1)})}) {
    EXPECT_THAT(Kept(policy, {}), ElementsAre()) << policy.description;
  }
}

TEST(RetentionPolicyTest, BadParameters) {
  EXPECT_EQ(
      ErrorOf(LatestN(-1)),
      absl::InvalidArgumentError("preservation policy \"LatestN\": n is out "
                                 "of range (need at least 0, found -1)"));
  EXPECT_EQ(ErrorOf(EveryNSteps(0)),
            absl::InvalidArgumentError(
                "preservation policy \"EveryNSteps\": n is out "
                "of range (need at least 1, found 0)"));
  EXPECT_EQ(
      ErrorOf(EveryNSteps(1, {.max_to_keep = -2})),
      absl::InvalidArgumentError(
          "preservation policy \"EveryNSteps\": max_to_keep is out of range "
          "(need at least 0, found -2)"));
  for (const PreservationPolicy& policy :
       {EveryNStepsClosest(0), EveryNStepsClosest(1, -1), EveryNSteps(-4),
        EveryNSeconds(-1), EveryNSeconds(NAN), LatestDuration(-1),
        LatestDuration(NAN), BestN("loss", {.n = -1}),
        BestN(MetricFunction(), {.n = 1}), AnyOfPolicies({}),
        AnyOfPolicies({LatestN(1), EveryNSteps(0)}), PreservationPolicy{}}) {
    EXPECT_EQ(ErrorOf(policy).code(), absl::StatusCode::kInvalidArgument)
        << policy.description;
  }
}

TEST(RetentionPolicyTest, AFunctionThatThrows) {
  const MetricFunction metric = [](const Metrics& metrics) {
    return metrics.at("accuracy");
  };
  const auto thrown =
      ApplyPreservation(BestN(metric, {.n = 1}), WithLoss({1, 2}), 0).status();
  EXPECT_EQ(thrown.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(
      std::string(thrown.message()),
      ::testing::StartsWith("preservation policy \"BestN\": exception: "));
  const PreservationPolicy odd{
      .description = "odd",
      .parameters = {},
      .keep = [](const std::vector<StepRecord>&,
                 double) -> StatusOr<std::vector<bool>> { throw 7; }};
  EXPECT_EQ(ErrorOf(odd), absl::InternalError("preservation policy \"odd\": "
                                              "exception of a type without "
                                              "text"));
}

TEST(RetentionPolicyTest, AFunctionThatGivesAnotherNumberOfFlags) {
  const PreservationPolicy odd{
      .description = "odd",
      .parameters = {},
      .keep = [](const std::vector<StepRecord>&, double) {
        return std::vector<bool>(3);
      }};
  EXPECT_EQ(
      ApplyPreservation(odd, Records({1, 2}), 0).status(),
      absl::InvalidArgumentError(
          "preservation policy \"odd\": wrong number of flags (need one for "
          "each step, 2, found 3)"));
}

// Ranks are compared by this.
TEST(RetentionPolicyTest, ParametersNameAllThatCounts) {
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(AnyOfPolicies({LatestN(3), PreserveAll(), CustomSteps({2, 1})})
                .parameters,
            (Parameters{{"LatestN.n", "3"},
                        {"PreserveAll", ""},
                        {"CustomSteps.steps", "1,2"}}));
  EXPECT_NE(EveryNSeconds(0.1).parameters, EveryNSeconds(0.2).parameters);
  EXPECT_NE(BestN("a", {}).parameters, BestN("b", {}).parameters);
}

}  // namespace
}  // namespace belay::retention_policy_test
