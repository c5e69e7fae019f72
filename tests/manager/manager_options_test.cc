#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "manager/check_manager_options.h"
#include "pipeline/save_options.h"

namespace belay::manager_options_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCounter = 0;

std::string ErrorOf(const ManagerOptions& options) {
  const Status status = CheckManagerOptions(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ManagerOptionsTest, GoodOnes) {
  EXPECT_EQ(CheckManagerOptions({}), absl::OkStatus());
  for (const ManagerOptions& options :
       {ManagerOptions{.retention = {.max_to_keep = 0}},
        ManagerOptions{.save_policy = {.step_counter = &kCounter,
                                      .checkpoint_interval = 1}},
        ManagerOptions{.retention = {.max_to_keep = 3,
                                    .keep_checkpoint_every_n_hours = 1.5}},
        ManagerOptions{.retention = {.best_metric = "loss"}, .read_only = true},
        ManagerOptions{
            .retention = {.best_metric = "loss", .preservation = LatestN(3)}},
        ManagerOptions{.prefix = "ckpt=1-a_b"}}) {
    EXPECT_EQ(CheckManagerOptions(options), absl::OkStatus());
  }
}

TEST(ManagerOptionsTest, NumbersOutOfRange) {
  EXPECT_EQ(ErrorOf({.retention = {.max_to_keep = -1}}),
            "check the options of a manager: max_to_keep is out of range (need "
            "at least 0, found -1)");
  EXPECT_THAT(ErrorOf({.retention = {.keep_period = 0}}),
              HasSubstr("keep_period is out of"));
  EXPECT_THAT(ErrorOf({.save_policy = {.save_interval_steps = 0}}),
              HasSubstr("save_interval_steps is out of"));
  EXPECT_THAT(ErrorOf({.save_policy = {.save_on_steps = {1, -1}}}),
              HasSubstr("save_on_steps is out of"));
  EXPECT_THAT(ErrorOf({.save_policy = {.step_counter = &kCounter,
                                       .checkpoint_interval = 0}}),
              HasSubstr("checkpoint_interval is out of"));
  EXPECT_EQ(
      ErrorOf({.tolerated_failures = -1}),
      "check the options of a manager: tolerated_failures is out of range "
      "(need at least 0, found -1)");
  EXPECT_EQ(CheckManagerOptions({.tolerated_failures = INT64_MAX}),
            absl::OkStatus());
  for (const double bad : {0.0, -1.0, double{NAN}, double{INFINITY}}) {
    EXPECT_THAT(ErrorOf({.retention = {.keep_time_interval = bad}}),
                HasSubstr("keep_time_interval is out of"));
    EXPECT_THAT(ErrorOf({.retention = {.keep_checkpoint_every_n_hours = bad}}),
                HasSubstr("keep_checkpoint_every_n_hours is out of"));
  }
  EXPECT_THAT(ErrorOf({.retention = {.best_metric = "a",
                                     .best_mode = static_cast<BestMode>(2)}}),
              HasSubstr("best_mode is out of range (need 0 to 1, found 2)"));
}

TEST(ManagerOptionsTest, IntervalsAndStopping) {
  for (const double bad : {0.0, -1.0, double{NAN}, double{INFINITY}}) {
    EXPECT_THAT(
        ErrorOf({.save_policy = {.auto_interval =
                                     AutoInterval{.mtbf_seconds = bad}}}),
        HasSubstr("mtbf_seconds is out of range"));
    EXPECT_THAT(ErrorOf({.time_limit_poll_seconds = bad}),
                HasSubstr("time_limit_poll_seconds is out of range"));
  }
  for (const double bad : {0.0, 1.0, -1.0, double{NAN}}) {
    EXPECT_THAT(
        ErrorOf({.save_policy = {.auto_interval =
                                     AutoInterval{.mtbf_seconds = 1,
                                                  .overhead_budget = bad}}}),
        HasSubstr("overhead_budget is out of range"));
  }
  const AutoInterval sound{.mtbf_seconds = 3600};
  EXPECT_EQ(CheckManagerOptions({.save_policy = {.auto_interval = sound}}),
            absl::OkStatus());
  for (const ManagerOptions& options :
       {ManagerOptions{
            .save_policy = {.save_interval_steps = 2, .auto_interval = sound}},
        ManagerOptions{
            .save_policy = {.save_on_steps = {2}, .auto_interval = sound}},
        ManagerOptions{.save_policy = {.should_save =
                                           [](int64_t, std::optional<int64_t>) {
                                             return true;
                                           },
                                      .auto_interval = sound}},
        ManagerOptions{.save_policy = {.step_counter = &kCounter,
                                      .checkpoint_interval = 1,
                                      .auto_interval = sound}}}) {
    EXPECT_THAT(ErrorOf(options), HasSubstr("auto_interval takes the place"));
  }
  EXPECT_THAT(
      ErrorOf({.save_policy = {.auto_interval = sound}, .read_only = true}),
      HasSubstr("read_only saves nothing"));
  EXPECT_EQ(ErrorOf({.stop_signals = {SIGUSR1, SIGKILL, 0}}),
            "check the options of a manager: stop_signals: SIGKILL cannot be "
            "caught; stop_signals: there is no signal 0");
  EXPECT_THAT(ErrorOf({.final_save_margin = -1}),
              HasSubstr("final_save_margin is out of range"));
  EXPECT_THAT(ErrorOf({.end_time = NAN}),
              HasSubstr("end_time is out of range (need a finite number"));
}

TEST(ManagerOptionsTest, Prefixes) {
  for (const std::string& bad :
       {std::string(), std::string("a/b"), std::string(".a"),
        std::string("a b"), std::string(201, 'a')}) {
    EXPECT_THAT(ErrorOf({.prefix = bad}), HasSubstr("the prefix of steps"))
        << bad;
  }
}

TEST(ManagerOptionsTest, Contradictions) {
  const auto yes = [](int64_t, std::optional<int64_t>) { return true; };
  const auto best = [](const Metrics&) { return 1.0; };
  EXPECT_THAT(ErrorOf({.save_policy = {.checkpoint_interval = 1}}),
              HasSubstr("checkpoint_interval needs step_counter"));
  for (const ManagerOptions& options :
       {ManagerOptions{
            .save_policy = {.save_interval_steps = 2, .should_save = yes}},
        ManagerOptions{
            .save_policy = {.save_first_step = false, .should_save = yes}},
        ManagerOptions{
            .save_policy = {.save_on_steps = {2}, .should_save = yes}}}) {
    EXPECT_THAT(ErrorOf(options), HasSubstr("should_save takes the place"));
  }
  for (const ManagerOptions& options :
       {ManagerOptions{.save_policy = {.save_interval_steps = 2,
                                      .step_counter = &kCounter,
                                      .checkpoint_interval = 1}},
        ManagerOptions{.save_policy = {.should_save = yes,
                                      .step_counter = &kCounter,
                                      .checkpoint_interval = 1}}}) {
    EXPECT_THAT(ErrorOf(options),
                HasSubstr("checkpoint_interval takes the place"));
  }
  EXPECT_THAT(ErrorOf({.retention = {.keep_time_interval = 1,
                                     .keep_checkpoint_every_n_hours = 1}}),
              HasSubstr("two rules for one thing"));
  EXPECT_THAT(ErrorOf({.retention = {.best_fn = best, .best_metric = "loss"}}),
              HasSubstr("best_fn and best_metric"));
  EXPECT_THAT(
      ErrorOf({.retention = {.keep_checkpoints_without_metrics = false}}),
      HasSubstr("keep_checkpoints_without_metrics needs"));
  EXPECT_THAT(ErrorOf({.retention = {.best_mode = BestMode::kMin}}),
              HasSubstr("best_mode needs best_fn or best_metric"));
  for (const ManagerOptions& options :
       {ManagerOptions{
            .retention = {.max_to_keep = 1, .preservation = LatestN(1)}},
        ManagerOptions{
            .retention = {.keep_period = 1, .preservation = LatestN(1)}},
        ManagerOptions{
            .retention = {.keep_time_interval = 1, .preservation = LatestN(1)}},
        ManagerOptions{.retention = {.keep_checkpoint_every_n_hours = 1,
                                    .preservation = LatestN(1)}}}) {
    EXPECT_THAT(ErrorOf(options), HasSubstr("preservation takes the place"));
  }
}

TEST(ManagerOptionsTest, ReadOnlyWritesNothing) {
  const auto yes = [](int64_t, std::optional<int64_t>) { return true; };
  for (const ManagerOptions& options :
       {ManagerOptions{.retention = {.max_to_keep = 1}, .read_only = true},
        ManagerOptions{.retention = {.keep_period = 1}, .read_only = true},
        ManagerOptions{.retention = {.preservation = LatestN(1)},
        .read_only = true}}) {
    EXPECT_THAT(ErrorOf(options), HasSubstr("read_only deletes nothing"));
  }
  for (const ManagerOptions& options :
       {ManagerOptions{.save_policy = {.save_interval_steps = 2},
       .read_only = true},
        ManagerOptions{.save_policy = {.should_save = yes}, .read_only = true},
        ManagerOptions{.async = AsyncOptions(), .read_only = true}}) {
    EXPECT_THAT(ErrorOf(options), HasSubstr("read_only saves nothing"));
  }
}

TEST(ManagerOptionsTest, ReadOnlyMovesNothing) {
  EXPECT_THAT(
      ErrorOf({.read_only = true, .newer_steps = NewerSteps::kSetAside}),
      HasSubstr("read_only moves nothing"));
}

TEST(ManagerOptionsTest, ABadPolicy) {
  EXPECT_THAT(
      ErrorOf({.retention = {.preservation = EveryNSteps(0)}}),
      HasSubstr("preservation policy \"EveryNSteps\": n is out of range"));
  EXPECT_THAT(ErrorOf({.retention = {.preservation = PreservationPolicy{}}}),
              HasSubstr("no function to call"));
}

TEST(ManagerOptionsTest, AllMistakesInOneMessage) {
  EXPECT_EQ(ErrorOf({.prefix = "a/b",
                     .save_policy = {.checkpoint_interval = 1},
                     .retention = {.max_to_keep = -1, .keep_period = 0}}),
            "check the options of a manager: the prefix of steps \"a/b\" "
            "cannot be a name (need 1 to 200 letters, digits or any of "
            "\"-_=\"); checkpoint_interval needs step_counter; "
            "max_to_keep is out of range (need at least 0, found -1); "
            "keep_period is out of range (need at least 1, found 0)");
}

// Each option that is changed is the one that ranks are told of.
TEST(ManagerOptionsTest, EachOptionIsCompared) {
  const auto yes = [](int64_t, std::optional<int64_t>) { return true; };
  const std::map<std::string, ManagerOptions> changed = {
      {"prefix", {.prefix = "other"}},
      {"save_interval_steps", {.save_policy = {.save_interval_steps = 2}}},
      {"save_on_steps", {.save_policy = {.save_on_steps = {1}}}},
      {"save_first_step", {.save_policy = {.save_first_step = false}}},
      {"should_save", {.save_policy = {.should_save = yes}}},
      {"step_counter", {.save_policy = {.step_counter = &kCounter}}},
      {"checkpoint_interval", {.save_policy = {.checkpoint_interval = 1}}},
      {"auto_interval",
       {.save_policy = {.auto_interval = AutoInterval{.mtbf_seconds = 1}}}},
      {"async", {.async = AsyncOptions()}},
      {"tolerated_failures", {.tolerated_failures = 1}},
      {"stop_signals", {.stop_signals = {SIGUSR1}}},
      {"stop_at_time_limit", {.stop_at_time_limit = true}},
      {"max_to_keep", {.retention = {.max_to_keep = 0}}},
      {"keep_period", {.retention = {.keep_period = 1}}},
      {"keep_time_interval", {.retention = {.keep_time_interval = 1}}},
      {"keep_checkpoint_every_n_hours",
       {.retention = {.keep_checkpoint_every_n_hours = 1}}},
      {"best_fn",
       {.retention = {.best_fn = [](const Metrics&) { return 1.0; }}}},
      {"best_metric", {.retention = {.best_metric = "a"}}},
      {"best_mode", {.retention = {.best_mode = BestMode::kMin}}},
      {"keep_checkpoints_without_metrics",
       {.retention = {.keep_checkpoints_without_metrics = false}}},
      {"preservation", {.retention = {.preservation = LatestN(2)}}},
      {"read_only", {.read_only = true}},
      {"remove_leftovers", {.remove_leftovers = false}},
      {"restore_match", {.restore_match = RestoreMatch::kConsumed}},
      {"newer_steps", {.newer_steps = NewerSteps::kDelete}},
      {"init_fn", {.init_fn = [] { return absl::OkStatus(); }}}};
  const auto plain = CommonOptions(ManagerOptions());
  EXPECT_EQ(plain.size(), changed.size());
  for (const auto& [name, options] : changed) {
    const auto other = CommonOptions(options);
    std::set<std::string> differing;
    for (size_t i = 0; i < plain.size(); ++i) {
      if (other[i].bytes != plain[i].bytes) differing.insert(other[i].name);
    }
    EXPECT_EQ(differing, std::set<std::string>{name});
  }
}

}  // namespace
}  // namespace belay::manager_options_test
