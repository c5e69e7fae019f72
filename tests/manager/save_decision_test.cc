#include "manager/save_decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace belay::save_decision_test {
namespace {

using ::testing::ElementsAre;
using Steps = std::vector<int64_t>;

// Calls Save for each step, forced where `forced` says so, and returns the
// steps that were saved.
Steps Saved(const ManagerOptions& options, const Steps& steps,
            const Steps& forced = {}) {
  SaveHistory history;
  for (const int64_t step : steps) {
    const bool force =
        std::find(forced.begin(), forced.end(), step) != forced.end();
    const auto decision =
        DecideSave(options, history, {.step = step, .force = force});
    EXPECT_EQ(decision.status(), absl::OkStatus());
    EXPECT_EQ(decision->save, decision->reason.empty());
    if (decision->save) history.steps.push_back(step);
  }
  return history.steps;
}

Steps Range(int64_t end) {
  Steps steps;
  for (int64_t step = 0; step < end; ++step) steps.push_back(step);
  return steps;
}

std::string Reason(const ManagerOptions& options, const SaveHistory& history,
                   const SaveRequest& request) {
  const auto decision = DecideSave(options, history, request);
  EXPECT_EQ(decision.status(), absl::OkStatus());
  return decision.ok() ? decision->reason : "";
}

// A program that has gone back would save a number that is taken.
TEST(SaveDecisionTest, AfterAnOlderStepThatWasRestored) {
  const SaveHistory history = {.steps = {1, 2, 3}, .restored = 1};
  const Status status = DecideSave({}, history, {.step = 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status.message()),
            "step 1 was restored, and step 2 is not after the latest step 3; "
            "set ManagerOptions.newer_steps to kSetAside or kDelete to go on "
            "from step 1, or restore "
            "the latest step");
  EXPECT_EQ(Reason({}, history, {.step = 1}),
            "step 1 is not after the latest step 3");
  EXPECT_EQ(Reason({}, history, {.step = 4}), "");
  for (const bool overwrite : {false, true}) {
    EXPECT_EQ(DecideSave({}, history,
                         {.step = 2, .force = true, .overwrite = overwrite})
                  .status(),
              status);
  }
}

// Without newer steps there is nothing to come back from.
TEST(SaveDecisionTest, NewerStepsThatAreGone) {
  SaveHistory history = {.steps = {1, 2, 3}, .damaged = {3}, .restored = 1};
  TakeSteps({1, 2}, history);
  EXPECT_EQ(history.restored, 1);
  EXPECT_TRUE(history.damaged.empty());
  TakeSteps({1}, history);
  EXPECT_FALSE(history.restored);
  EXPECT_EQ(Reason({}, history, {.step = 2}), "");
}

TEST(SaveDecisionTest, Interval) {
  EXPECT_THAT(Saved({.save_policy = {.save_interval_steps = 2}}, Range(5)),
              ElementsAre(0, 2, 4));
  EXPECT_THAT(Saved({.save_policy = {.save_interval_steps = 2}}, Range(6), {5}),
              ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(Saved({}, Range(3)), ElementsAre(0, 1, 2));
}

TEST(SaveDecisionTest, SaveOnSteps) {
  EXPECT_THAT(Saved({.save_policy = {.save_interval_steps = 10000,
                                     .save_on_steps = {1, 3, 5}}},
                    Range(8)),
              ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(Saved({.save_policy = {.save_interval_steps = 4,
                                     .save_on_steps = {3, 3}}},
                    Range(6)),
              ElementsAre(0, 3, 4));
}

TEST(SaveDecisionTest, IntervalAndAForcedSave) {
  EXPECT_THAT(
      Saved({.save_policy = {.save_interval_steps = 4}}, Range(10), {2}),
      ElementsAre(0, 2, 4, 8));
}

TEST(SaveDecisionTest, TheFirstStepIsAlwaysSaved) {
  EXPECT_THAT(Saved({.save_policy = {.save_interval_steps = 4}}, {3, 5, 8}),
              ElementsAre(3, 8));
}

TEST(SaveDecisionTest, StepsIncrease) {
  EXPECT_THAT(Saved({}, {5, 5, 4, 6}), ElementsAre(5, 6));
  EXPECT_EQ(Reason({}, {.steps = {1, 5}}, {.step = 4}),
            "step 4 is not after the latest step 5");
  EXPECT_EQ(Reason({}, {.steps = {1, 5}}, {.step = 4, .force = true}), "");
}

TEST(SaveDecisionTest, AForcedSaveReplacesNothing) {
  const SaveHistory history{.steps = {1, 5}};
  const SaveRequest request{.step = 5, .force = true};
  EXPECT_EQ(DecideSave({}, history, request).status(),
            absl::AlreadyExistsError("step 5 is there already; choose "
                                     "another number or set "
                                     "SaveOptions.overwrite"));
  const SaveRequest replacing{.step = 5, .force = true, .overwrite = true};
  EXPECT_TRUE(DecideSave({}, history, replacing)->save);
}

// A program that has just started has nothing to lose.
TEST(SaveDecisionTest, NotTheFirstStep) {
  const ManagerOptions options{
      .save_policy = {.save_interval_steps = 3, .save_first_step = false}};
  EXPECT_THAT(Saved(options, Range(8)), ElementsAre(3, 6));
  EXPECT_THAT(Saved(options, {1, 2, 3, 4}), ElementsAre(3));
  EXPECT_THAT(Saved(options, {7, 8, 9}), ElementsAre(9));
  EXPECT_THAT(Saved(options, Range(8), {0, 4}), ElementsAre(0, 3, 4, 6));
  EXPECT_EQ(Reason(options, {}, {.step = 0}),
            "step 0 is the first, which save_first_step leaves out");
  EXPECT_EQ(Reason(options, {}, {.step = 1}),
            "step 1 is neither a multiple of 3 nor in save_on_steps");
  EXPECT_EQ(Reason(options, {.steps = {20}}, {.step = 21}), "");
  EXPECT_EQ(Reason(options, {}, {.step = 0, .is_last = true}), "");
  EXPECT_THAT(Saved({.save_policy = {.save_interval_steps = 3,
                                     .save_on_steps = {0, 1},
                                     .save_first_step = false}},
                    Range(5)),
              ElementsAre(0, 1, 3));
  EXPECT_THAT(Saved({.save_policy = {.save_first_step = false}}, Range(4)),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(Saved({.save_policy = {.save_interval_steps = 3}}, Range(8)),
              ElementsAre(0, 3, 6));
}

TEST(SaveDecisionTest, ShouldSave) {
  std::vector<std::pair<int64_t, std::optional<int64_t>>> asked;
  const ManagerOptions options{
      .save_policy = {
          .should_save = [&](int64_t step, std::optional<int64_t> latest) {
            asked.emplace_back(step, latest);
            return step % 3 == 1;
          }}};
  EXPECT_THAT(Saved(options, Range(6), {5}), ElementsAre(1, 4, 5));
  EXPECT_THAT(
      asked, ElementsAre(std::pair(0, std::nullopt), std::pair(1, std::nullopt),
                         std::pair(2, 1), std::pair(3, 1), std::pair(4, 1)));
}

TEST(SaveDecisionTest, AutoInterval) {
  const ManagerOptions options{
      .save_policy = {.auto_interval = AutoInterval{.mtbf_seconds = 1}}};
  EXPECT_EQ(Reason(options, {}, {.step = 1, .due_in = 9}), "");  // the first
  EXPECT_EQ(Reason(options, {.steps = {1}}, {.step = 2, .due_in = 9.25}),
            "auto_interval: the next save is due in 9.25 s");
  EXPECT_EQ(Reason(options, {.steps = {1}}, {.step = 2}), "");
  EXPECT_EQ(Reason(options, {.steps = {1}}, {.due_in = -3}), "");
  EXPECT_EQ(
      Reason(options, {.steps = {1}}, {.step = 2, .force = true, .due_in = 9}),
      "");
  EXPECT_EQ(Reason(options, {.steps = {2}}, {.step = 2}),
            "step 2 is not after the latest step 2");
}

TEST(SaveDecisionTest, TheLastSaveNeedsNoRule) {
  const auto never = [](int64_t, std::optional<int64_t>) { return false; };
  const int64_t counter = 5;
  for (const ManagerOptions& options :
       {ManagerOptions{.save_policy = {.save_interval_steps = 100}},
        ManagerOptions{.save_policy = {.should_save = never}},
        ManagerOptions{.save_policy = {.step_counter = &counter,
                                      .checkpoint_interval = 100}},
        ManagerOptions{.save_policy = {.auto_interval =
                                           AutoInterval{.mtbf_seconds = 1}}}}) {
    const SaveHistory history{.steps = {1}, .counter = 1};
    SaveRequest request{.step = 3, .counter = counter, .due_in = 9};
    EXPECT_NE(Reason(options, history, request), "");
    request.is_last = true;
    EXPECT_EQ(Reason(options, history, request), "");
    request.step = 1;  // is there
    EXPECT_EQ(Reason(options, history, request),
              "step 1 is not after the latest step 1");
  }
  EXPECT_EQ(Reason({.read_only = true}, {}, {.step = 3, .is_last = true}),
            "the manager is read-only");
}

// The rules go on as if the save that failed had been made.
TEST(SaveDecisionTest, AMissedSaveCountsAsMadeForTheRules) {
  const SaveHistory first{.missed = {{.step = 3}}};
  EXPECT_EQ(
      Reason({.save_policy = {.save_interval_steps = 4}}, first, {.step = 5}),
      "step 5 is neither a multiple of 4 nor in save_on_steps");
  EXPECT_EQ(
      Reason({.save_policy = {.save_interval_steps = 4}}, first, {.step = 8}),
      "");
  EXPECT_EQ(Reason({}, first, {.step = 4}), "");
  std::optional<int64_t> told;
  const ManagerOptions asks{
      .save_policy = {
          .should_save = [&](int64_t, std::optional<int64_t> latest) {
            told = latest;
            return true;
          }}};
  EXPECT_EQ(Reason(asks, first, {.step = 9}), "");
  EXPECT_EQ(told, 3);
  EXPECT_EQ(Reason(asks, {.steps = {7}, .missed = {{.step = 8}}}, {.step = 9}),
            "");
  EXPECT_EQ(told, 8);
  const ManagerOptions in_time{
      .save_policy = {.auto_interval = AutoInterval{.mtbf_seconds = 1}}};
  EXPECT_EQ(Reason(in_time, first, {.step = 4, .due_in = 9}),
            "auto_interval: the next save is due in 9 s");
  int64_t counter = 0;
  const ManagerOptions counts{
      .save_policy = {.step_counter = &counter, .checkpoint_interval = 4}};
  const SaveHistory at_six{.missed = {{.step = 1, .counter = 6}}};
  EXPECT_EQ(Reason(counts, at_six, {.counter = 9}),
            "step_counter has not grown by checkpoint_interval (need 4, found "
            "3)");
  EXPECT_EQ(Reason(counts, at_six, {.counter = 10}), "");
}

TEST(SaveDecisionTest, AMissedSaveCanBeMadeAtItsOwnStep) {
  const SaveHistory history{.steps = {1}, .missed = {{.step = 5}}};
  EXPECT_EQ(Reason({}, history, {.step = 5}), "");
  EXPECT_EQ(DecideSave({}, history, {})->step, 2);
}

TEST(SaveDecisionTest, NoRuleIsAgainstMakingUp) {
  const auto never = [](int64_t, std::optional<int64_t>) { return false; };
  const int64_t counter = 5;
  for (const ManagerOptions& options :
       {ManagerOptions{.save_policy = {.save_interval_steps = 100}},
        ManagerOptions{.save_policy = {.should_save = never}},
        ManagerOptions{.save_policy = {.step_counter = &counter,
                                      .checkpoint_interval = 100}},
        ManagerOptions{.save_policy = {.auto_interval =
                                           AutoInterval{.mtbf_seconds = 1}}}}) {
    const SaveHistory history{
        .steps = {1}, .counter = 1, .missed = {{.step = 2, .counter = 4}}};
    SaveRequest request{.step = 3, .counter = counter, .due_in = 9};
    EXPECT_NE(Reason(options, history, request), "");
    request.makes_up = true;
    EXPECT_EQ(Reason(options, history, request), "");
    request.step = 1;  // is there
    EXPECT_NE(Reason(options, history, request), "");
  }
}

TEST(SaveDecisionTest, ShouldSaveThatThrows) {
  const ManagerOptions options{
      .save_policy = {.should_save = [](int64_t, std::optional<int64_t>)
                          -> bool { throw std::runtime_error("no"); }}};
  EXPECT_EQ(DecideSave(options, {}, {.step = 1}).status(),
            absl::InternalError("should_save: exception: no"));
}

TEST(SaveDecisionTest, ReadOnly) {
  const ManagerOptions options{.read_only = true};
  EXPECT_EQ(Reason(options, {}, {.step = 1}), "the manager is read-only");
  EXPECT_EQ(DecideSave(options, {}, {.step = 1, .force = true}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// testCheckpointInterval: the counter of the steps, not the number, counts.
TEST(SaveDecisionTest, CheckpointInterval) {
  int64_t counter = 0;
  const ManagerOptions options{
      .save_policy = {.step_counter = &counter, .checkpoint_interval = 2}};
  const auto with = [](int64_t now, std::optional<int64_t> last,
                       bool force = false) {
    return std::pair(SaveHistory{.counter = last},
                     SaveRequest{.counter = now, .force = force});
  };
  const auto reason = [&](const std::pair<SaveHistory, SaveRequest>& call) {
    return Reason(options, call.first, call.second);
  };
  EXPECT_EQ(reason(with(0, {})), "");
  EXPECT_EQ(reason(with(0, 0)), "step_counter is still 0");
  EXPECT_EQ(reason(with(1, 0)),
            "step_counter has not grown by checkpoint_interval (need 2, found "
            "1)");
  EXPECT_EQ(reason(with(2, 0)), "");
  EXPECT_EQ(reason(with(2, 2, true)), "step_counter is still 2");
  EXPECT_EQ(reason(with(3, 2, true)), "");
  EXPECT_NE(reason(with(0, 2)), "");
  EXPECT_EQ(reason(with(INT64_MAX, INT64_MIN)), "");
}

TEST(SaveDecisionTest, NumbersGoOn) {
  const auto number = [](const SaveHistory& history, int64_t save_counter) {
    return DecideSave({}, history, {.save_counter = save_counter})->step;
  };
  EXPECT_EQ(number({}, 0), 1);
  EXPECT_EQ(number({}, 5), 6);
  EXPECT_EQ(number({.steps = {1, 2}}, 2), 3);
  // A program that restored nothing does not replace what is there.
  EXPECT_EQ(number({.steps = {1, 2}}, 0), 3);
  EXPECT_EQ(number({.steps = {0, 2, 4, 8, 32}}, 6), 33);
}

TEST(SaveDecisionTest, NoNumberIsLeft) {
  EXPECT_EQ(DecideSave({}, {.steps = {INT64_MAX}}, {}).status().code(),
            absl::StatusCode::kOutOfRange);
}

// The newest steps could not be restored, and the training went back.
TEST(SaveDecisionTest, DamagedStepsAreReplaced) {
  const SaveHistory history{.steps = {1, 2, 3, 4}, .damaged = {3, 4}};
  EXPECT_EQ(FindLatest(history), 2);
  const auto next = DecideSave({}, history, {.save_counter = 2});
  EXPECT_EQ(next->step, 3);
  EXPECT_TRUE(next->save);
  EXPECT_TRUE(next->replaces_damaged);
  const auto forced = DecideSave({}, history, {.step = 4, .force = true});
  EXPECT_TRUE(forced->save);
  EXPECT_TRUE(forced->replaces_damaged);
  EXPECT_FALSE(DecideSave({}, history, {.step = 2})->save);
  EXPECT_FALSE(DecideSave({}, history, {.step = 5})->replaces_damaged);
  EXPECT_EQ(FindLatest({.steps = {1}, .damaged = {1}}), std::nullopt);
}

TEST(SaveDecisionTest, RulesAboutStepsNeedAStep) {
  const ManagerOptions options{.save_policy = {.save_interval_steps = 2}};
  EXPECT_EQ(DecideSave(options, {}, {}).status(),
            absl::InvalidArgumentError(
                "save_interval_steps, save_on_steps and save_first_step need "
                "a step; pass one to Save, or set step_counter"));
  EXPECT_EQ(Reason(options, {.steps = {1}}, {.counter = 4}), "");
  EXPECT_EQ(Reason(options, {.steps = {1}}, {.counter = 5}),
            "step 5 is neither a multiple of 2 nor in save_on_steps");
}

TEST(SaveDecisionTest, NegativeSteps) {
  EXPECT_EQ(DecideSave({}, {}, {.step = -1}).status(),
            absl::InvalidArgumentError("step is out of range (need 0 to "
                                       "9223372036854775807, found -1)"));
}

}  // namespace
}  // namespace belay::save_decision_test
