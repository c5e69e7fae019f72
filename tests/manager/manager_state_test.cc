#include "manager/manager_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "manager/retention_plan.h"

namespace belay::manager_state_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Steps = std::vector<int64_t>;

constexpr double kHour = 3600;

// What a run of a manager comes to: each save is followed by its retention.
class Lifetimes {
 public:
  explicit Lifetimes(const ManagerOptions& options) { Restart(options, 0); }

  void Restart(const ManagerOptions& options, double now) {
    options_ = options;
    RecoveredState recovered = RecoverState(stored_, disk_, now);
    state_ = recovered.state;
    notes_ = recovered.notes;
  }

  void Save(int64_t step, double now,
            std::optional<Metrics> metrics = std::nullopt) {
    PutRecord({.step = step, .time = now, .metrics = metrics}, state_.steps);
    disk_.push_back(step);
    const auto plan = PlanRetention(
        MakePolicy(options_.retention),
        options_.retention.keep_checkpoint_every_n_hours, state_, now);
    ASSERT_EQ(plan.status(), absl::OkStatus());
    CarryOut(*plan, state_);
    for (const int64_t gone : plan->remove) std::erase(disk_, gone);
    stored_ = state_;
  }

  // Steps of no manager.
  void AddUnmanaged(int64_t step) { disk_.push_back(step); }

  const Steps& disk() const { return disk_; }
  const ManagerState& state() const { return state_; }
  const std::vector<std::string>& notes() const { return notes_; }

  Steps Active() const {
    Steps active;
    for (const StepRecord& record : state_.steps) {
      if (!record.preserved) active.push_back(record.step);
    }
    return active;
  }

 private:
  ManagerOptions options_;
  ManagerState state_;
  std::optional<ManagerState> stored_;
  std::vector<std::string> notes_;
  Steps disk_;
};

TEST(RetentionTest, MaxToKeep) {
  Lifetimes run({.retention = {.max_to_keep = 2}});
  for (int step = 0; step < 5; ++step) run.Save(step, step);
  EXPECT_THAT(run.disk(), ElementsAre(3, 4));
  Lifetimes none({.retention = {.max_to_keep = 0}});
  for (int step = 0; step < 5; ++step) none.Save(step, step);
  EXPECT_THAT(none.disk(), ElementsAre());
  Lifetimes all({});
  for (int step = 0; step < 5; ++step) all.Save(step, step);
  EXPECT_THAT(all.disk(), ElementsAre(0, 1, 2, 3, 4));
}

TEST(RetentionTest, KeepPeriod) {
  Lifetimes run({.retention = {.max_to_keep = 2, .keep_period = 4}});
  for (int step = 0; step < 12; step += 2) run.Save(step, step);
  EXPECT_THAT(run.disk(), ElementsAre(0, 4, 8, 10));
}

TEST(RetentionTest, KeepTimeIntervalOverTwoLifetimes) {
  const ManagerOptions options{
      .retention = {.max_to_keep = 2, .keep_time_interval = 3 * kHour}};
  Lifetimes run(options);
  for (int step = 0; step < 10; ++step) run.Save(step, step * kHour);
  EXPECT_THAT(run.disk(), ElementsAre(0, 3, 6, 8, 9));
  run.Restart(options, 10 * kHour);
  for (int step = 10; step < 20; ++step) run.Save(step, step * kHour);
  EXPECT_THAT(run.disk(), ElementsAre(0, 3, 6, 9, 12, 15, 18, 19));
}

TEST(RetentionTest, RulesTogether) {
  Lifetimes run({.retention = {.max_to_keep = 0,
                               .keep_period = 3,
                               .keep_time_interval = 5 * kHour}});
  for (int step = 0; step < 9; ++step) run.Save(step, step * kHour);
  EXPECT_THAT(run.disk(), ElementsAre(0, 3, 5, 6));
}

TEST(RetentionTest, BestAndTimeInterval) {
  Lifetimes run({.retention = {.max_to_keep = 3,
                               .keep_time_interval = 3 * kHour,
                               .best_metric = "loss",
                               .best_mode = BestMode::kMin}});
  for (int step = 0; step < 10; ++step) {
    run.Save(step, step * kHour, Metrics{{"loss", step}});
  }
  EXPECT_THAT(run.disk(), ElementsAre(0, 1, 2, 3, 6, 9));
}

TEST(RetentionTest, BestOverTwoLifetimes) {
  const std::vector<double> losses = {5, 2, 4, 3, 7, 1, 10, 9, 7, 4};
  for (const BestMode mode : {BestMode::kMin, BestMode::kMax}) {
    const ManagerOptions options{.retention = {.max_to_keep = 2,
                                               .best_metric = "loss",
                                               .best_mode = mode}};
    Lifetimes run(options);
    for (int step = 0; step < 10; ++step) {
      if (step == 5) run.Restart(options, step);
      run.Save(step, step, Metrics{{"loss", losses[step]}});
    }
    EXPECT_EQ(run.disk(),
              mode == BestMode::kMin ? Steps({1, 5}) : Steps({6, 7}));
  }
}

TEST(RetentionTest, StepsWithoutMetricsStay) {
  Lifetimes run({.retention = {.max_to_keep = 3, .best_metric = "loss"}});
  for (int step = 0; step < 6; ++step) {
    std::optional<Metrics> metrics;
    if (step % 2 == 0) metrics = Metrics{{"loss", step}};
    run.Save(step, step, metrics);
  }
  EXPECT_THAT(run.disk(), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(RetentionTest, AUsersPolicy) {
  Lifetimes run({.retention = {.preservation = AnyOfPolicies(
                                   {LatestN(1), CustomSteps({0, 3})})}});
  for (int step = 0; step < 6; ++step) run.Save(step, step);
  EXPECT_THAT(run.disk(), ElementsAre(0, 3, 5));
}

TEST(RetentionTest, ABadPolicyIsAnError) {
  EXPECT_EQ(PlanRetention(EveryNSteps(0), {}, {}, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// The example of tf.train.CheckpointManager, to the second.
TEST(RetentionTest, KeepCheckpointEveryNHours) {
  Lifetimes run({});
  run.Restart({.retention = {.max_to_keep = 2}}, 3);
  EXPECT_EQ(run.state().last_preserved, 2);
  run.Save(1, 10000);
  run.Save(2, 10000 + 3610);
  const ManagerOptions hours{
      .retention = {.max_to_keep = 2, .keep_checkpoint_every_n_hours = 1.5}};
  run.Restart(hours, 14330);
  EXPECT_THAT(run.Active(), ElementsAre(1, 2));
  run.Save(3, 14330);
  EXPECT_THAT(run.disk(), ElementsAre(1, 2, 3));
  EXPECT_THAT(run.Active(), ElementsAre(2, 3));
  EXPECT_EQ(run.state().last_preserved, 10000);
  run.Save(4, 16130);
  EXPECT_THAT(run.disk(), ElementsAre(1, 3, 4));
  run.Save(5, 17930);
  EXPECT_THAT(run.disk(), ElementsAre(1, 4, 5));
  run.Restart(hours, 17940);
  EXPECT_THAT(run.Active(), ElementsAre(4, 5));
  run.Save(6, 17940);
  EXPECT_THAT(run.disk(), ElementsAre(1, 4, 5, 6));
  EXPECT_THAT(run.Active(), ElementsAre(5, 6));
  EXPECT_EQ(run.state().last_preserved, 16130);
}

TEST(RetentionTest, ClockReset) {
  const ManagerOptions options{
      .retention = {.max_to_keep = 1, .keep_checkpoint_every_n_hours = 1}};
  Lifetimes run({});
  run.Restart(options, 10000);
  for (int save = 0; save < 3; ++save) run.Save(save + 1, 10000 + save * kHour);
  EXPECT_THAT(run.disk(), ElementsAre(2, 3));
  EXPECT_EQ(run.state().last_preserved, 13600);
  run.Restart(options, 5000);
  EXPECT_THAT(run.notes(),
              ElementsAre("the clock is behind the last preserved step (need "
                          "at least 13600, found 5000); the steps that are "
                          "there will not be deleted"));
  EXPECT_THAT(run.Active(), ElementsAre());
  run.Save(4, 5010);
  EXPECT_THAT(run.disk(), ElementsAre(2, 3, 4));
  run.Save(5, 5020);
  EXPECT_THAT(run.disk(), ElementsAre(2, 3, 5));
}

// The clock is right, 30 hours ahead, and right again.
double TimeOf(int64_t step) {
  const double hour = static_cast<double>(step) / 2;
  return kHour * (step < 4 || step >= 8 ? hour : hour + 30);
}

TEST(RetentionTest, AClockThatWasAheadDeletesNothingThatIsToBeKept) {
  Lifetimes interval(
      {.retention = {.max_to_keep = 1, .keep_time_interval = kHour}});
  for (int64_t step = 0; step < 12; ++step) interval.Save(step, TimeOf(step));
  EXPECT_THAT(interval.disk(), ElementsAre(0, 2, 4, 6, 8, 10, 11));
  Lifetimes hours(
      {.retention = {.max_to_keep = 1, .keep_checkpoint_every_n_hours = 1}});
  for (int64_t step = 0; step < 12; ++step) hours.Save(step, TimeOf(step));
  EXPECT_THAT(hours.disk(), ElementsAre(2, 4, 6, 8, 10, 11));
}

TEST(RetentionTest, AClockThatWasAheadFromTheStart) {
  Lifetimes interval({});
  const ManagerOptions seconds{
      .retention = {.max_to_keep = 1, .keep_time_interval = kHour}};
  interval.Restart(seconds, TimeOf(4));
  for (int64_t step = 4; step < 12; ++step) interval.Save(step, TimeOf(step));
  EXPECT_THAT(interval.disk(), ElementsAre(4, 6, 8, 10, 11));
  Lifetimes hours({});
  const ManagerOptions each{
      .retention = {.max_to_keep = 1, .keep_checkpoint_every_n_hours = 1}};
  hours.Restart(each, TimeOf(4));
  for (int64_t step = 4; step < 12; ++step) hours.Save(step, TimeOf(step));
  EXPECT_THAT(hours.disk(), ElementsAre(6, 8, 10, 11));
}

// A best step that is given up late is older than the last preserved one, and
// no clock was put back.
TEST(RetentionTest, AnOldStepThatIsGivenUpIsNoReset) {
  const ManagerOptions options{.retention = {.max_to_keep = 1,
                                             .keep_checkpoint_every_n_hours = 2,
                                             .best_metric = "score"}};
  Lifetimes run(options);
  for (int64_t step = 0; step < 6; ++step) {
    const double score = step == 1 ? 5 : step == 5 ? 9 : 0;
    run.Save(step, static_cast<double>(step) * kHour,
             Metrics{{"score", score}});
  }
  EXPECT_EQ(run.state().last_preserved, 4 * kHour);
  EXPECT_THAT(run.disk(), ElementsAre(2, 4, 5));
}

TEST(RetentionTest, ANoteSaysThatTheClockWasPutBack) {
  const ManagerOptions options{.retention = {.keep_time_interval = kHour}};
  const std::vector<StepRecord> records = {{.step = 1, .time = 9000},
                                           {.step = 2, .time = 9100},
                                           {.step = 5, .time = 100},
                                           {.step = 6, .time = 200}};
  EXPECT_EQ(NoteOnClock(options.retention, records, 5),
            "the clock was put back by at least 9e+03 s between step 2 and "
            "step 5; rules about time begin anew with step 5");
  for (const int64_t step : {0, 1, 2, 4, 6, 7}) {
    EXPECT_EQ(NoteOnClock(options.retention, records, step), "") << step;
  }
  EXPECT_EQ(NoteOnClock({.max_to_keep = 2}, records, 5), "");
}

TEST(RetentionTest, UnmanagedStepsStay) {
  Lifetimes run({});
  run.AddUnmanaged(1);
  run.AddUnmanaged(2);
  run.Restart({.retention = {.max_to_keep = 1}}, 10);
  EXPECT_THAT(run.Active(), ElementsAre());
  run.Save(3, 11);
  run.Save(4, 12);
  EXPECT_THAT(run.disk(), ElementsAre(1, 2, 4));
}

TEST(FindBestTest, TheBestStep) {
  const auto record = [](int64_t step, std::optional<double> loss) {
    StepRecord made{.step = step};
    if (loss) made.metrics = Metrics{{"loss", *loss}};
    return made;
  };
  const std::vector<StepRecord> steps = {record(1, 3),  record(2, 1),
                                         record(3, {}), record(4, 1),
                                         record(5, 3),  record(6, NAN)};
  const auto best = [&](const RetentionPolicy& retention,
                        const std::vector<StepRecord>& records) {
    return FindBest(retention, records).value();
  };
  EXPECT_EQ(best({.best_metric = "loss"}, steps), 5);
  EXPECT_EQ(best({.best_metric = "loss", .best_mode = BestMode::kMin}, steps),
            4);
  EXPECT_EQ(best({.best_metric = "accuracy"}, steps), std::nullopt);
  EXPECT_EQ(best({.best_metric = "loss"}, {record(3, {})}), std::nullopt);
  EXPECT_EQ(best({.best_metric = "loss"}, {record(0, 1)}), 0);
  EXPECT_EQ(best({.best_metric = "loss"}, {}), std::nullopt);
  const auto throws = [](const Metrics& metrics) { return metrics.at("x"); };
  EXPECT_EQ(FindBest({.best_fn = throws}, steps).status().code(),
            absl::StatusCode::kInternal);
}

TEST(RecoverStateTest, StepsThatAreGoneAreForgotten) {
  ManagerState stored{
      .steps = {{.step = 1, .time = 5}, {.step = 4, .time = 6}}};
  const RecoveredState recovered = RecoverState(stored, {0, 4}, 10);
  ASSERT_EQ(recovered.state.steps.size(), 1u);
  EXPECT_EQ(recovered.state.steps[0].step, 4);
  EXPECT_THAT(recovered.notes, ElementsAre());
}

TEST(RecoverStateTest, ACommittedStepThatWasBeingSavedIsAdopted) {
  const StepRecord saving{.step = 3, .time = 7, .metrics = Metrics{{"a", 1}}};
  const ManagerState stored{.steps = {{.step = 5, .time = 6}},
                            .saving = saving};
  const RecoveredState adopted = RecoverState(stored, {3, 5}, 10);
  EXPECT_EQ(adopted.state.steps,
            (std::vector<StepRecord>{saving, {.step = 5, .time = 6}}));
  EXPECT_EQ(adopted.state.saving, std::nullopt);
  EXPECT_THAT(adopted.notes,
              ElementsAre("step 3 was committed by a job that ended before it "
                          "could write that down; it is managed now"));
  const RecoveredState not_committed = RecoverState(stored, {5}, 10);
  EXPECT_EQ(not_committed.state.steps, stored.steps);
  EXPECT_EQ(not_committed.state.saving, std::nullopt);
  EXPECT_THAT(not_committed.notes, ElementsAre());
}

ManagerState Sample() {
  const double inf = std::numeric_limits<double>::infinity();
  return {.last_preserved = 1790000000.123456789,
          .steps = {{.step = 0, .time = 0.1},
                    {.step = 7,
                     .time = 1e300,
                     .metrics = Metrics{{"a \"b\"\n", -inf}, {"c", inf}},
                     .preserved = true},
                    {.step = INT64_MAX, .time = -1, .metrics = Metrics{}}},
          .saving = StepRecord{.step = 8, .metrics = Metrics{{"z", 1.0 / 3}}}};
}

StatusOr<ManagerState> Parse(const std::string& text) {
  return ParseState(text, "step", "read \"f\"");
}

TEST(StateTextTest, ReadsWhatItWrote) {
  const std::string text = StateText(Sample(), "step").value();
  EXPECT_EQ(Parse(text).value(), Sample()) << text;
  EXPECT_EQ(Parse(StateText({}, "step").value()).value(), ManagerState());
  const ManagerState odd{
      .steps = {{.step = 1, .metrics = Metrics{{"loss", NAN}}}}};
  const auto read = Parse(StateText(odd, "step").value());
  EXPECT_TRUE(std::isnan(read->steps[0].metrics->at("loss")));
}

// A person may read it, and other programs.
TEST(StateTextTest, IsPlainJson) {
  const ManagerState state{
      .last_preserved = 2.5,
      .steps = {{.step = 3, .time = 4, .metrics = Metrics{{"loss", 0.5}}}}};
  EXPECT_EQ(StateText(state, "step").value(),
            "{\n"
            " \"format\": \"belay checkpoint manager\",\n"
            " \"last_preserved\": 2.5,\n"
            " \"prefix\": \"step\",\n"
            " \"steps\": [\n"
            "  {\n"
            "   \"metrics\": {\n"
            "    \"loss\": 0.5\n"
            "   },\n"
            "   \"step\": 3,\n"
            "   \"time\": 4.0\n"
            "  }\n"
            " ],\n"
            " \"version\": 1\n"
            "}\n");
}

TEST(StateTextTest, NamesOfMetricsAreText) {
  const ManagerState state{
      .steps = {{.step = 1, .metrics = Metrics{{"\xff", 1}}}}};
  EXPECT_EQ(StateText(state, "step").status(),
            absl::InvalidArgumentError("describe the steps of \"step\": the "
                                       "name of a metric is not UTF-8"));
}

// "Never start from zero": whatever is cut off, it is noticed.
TEST(StateTextTest, EveryTruncationIsDataLoss) {
  const std::string text = StateText(Sample(), "step").value();
  for (size_t size = 0; size + 2 < text.size(); ++size) {
    EXPECT_EQ(Parse(text.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
  EXPECT_EQ(
      Parse("").status(),
      absl::DataLossError("read \"f\": the state is damaged (not JSON); "
                          "restore the file from a copy, or move it away: then "
                          "the existing steps stay and are never deleted"));
}

TEST(StateTextTest, EveryChangedByteIsReadOrRefused) {
  const std::string text = StateText(Sample(), "step").value();
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'\0', '"', '}', '-', 'e', '9', '\xff'}) {
      std::string changed = text;
      changed[i] = c;
      const auto state = Parse(changed);
      if (!state.ok()) continue;
      for (size_t k = 1; k < state->steps.size(); ++k) {
        EXPECT_LT(state->steps[k - 1].step, state->steps[k].step);
      }
      for (const StepRecord& record : state->steps) EXPECT_GE(record.step, 0);
    }
  }
}

TEST(StateTextTest, DamageIsNamed) {
  const auto with = [](const std::string& rest) {
    return "{\"format\": \"belay checkpoint manager\", \"prefix\": \"step\", "
           "\"version\": 1, \"last_preserved\": 1" +
           rest + "}";
  };
  EXPECT_EQ(Parse(with(", \"steps\": []")).value(),
            ManagerState{.last_preserved = 1});
  for (const std::string bad :
       {"", ", \"steps\": 3", ", \"steps\": [3]", ", \"steps\": [{}]",
        ", \"steps\": [{\"step\": -1, \"time\": 0}]",
        ", \"steps\": [{\"step\": 1.5, \"time\": 0}]",
        ", \"steps\": [{\"step\": 9223372036854775808, \"time\": 0}]",
        ", \"steps\": [{\"step\": 1, \"time\": \"0\"}]",
        ", \"steps\": [{\"step\": 1, \"time\": 0, \"metrics\": 3}]",
        ", \"steps\": [{\"step\": 1, \"time\": 0, \"metrics\": {\"a\": []}}]",
        ", \"steps\": [{\"step\": 1, \"time\": 0, \"preserved\": 1}]",
        ", \"steps\": [{\"step\": 2, \"time\": 0}, {\"step\": 1, \"time\": 0}]",
        ", \"steps\": [{\"step\": 1, \"time\": 0}, {\"step\": 1, \"time\": 0}]",
        ", \"steps\": [], \"saving\": {}",
        ", \"steps\": [], \"version\": \"1\""}) {
    EXPECT_EQ(Parse(with(bad)).status().code(), absl::StatusCode::kDataLoss)
        << bad;
  }
}

TEST(StateTextTest, OthersAreRefused) {
  EXPECT_THAT(std::string(Parse("{}").status().message()),
              HasSubstr("read \"f\": not written by belay"));
  for (const std::string foreign : {"{}", "[]", "3", "\"belay\"", "null"}) {
    EXPECT_EQ(Parse(foreign).status().code(),
              absl::StatusCode::kFailedPrecondition)
        << foreign;
  }
  EXPECT_EQ(Parse(StateText({}, "other").value()).status(),
            absl::FailedPreconditionError(
                "read \"f\": written for another prefix (need \"step\", found "
                "\"other\")"));
  std::string newer = StateText({}, "step").value();
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_EQ(Parse(newer).status(),
            absl::UnimplementedError("read \"f\": written by a newer belay; "
                                     "use that (need version 1, found 2)"));
}

}  // namespace
}  // namespace belay::manager_state_test
