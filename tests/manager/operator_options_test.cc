#include "pipeline/operator_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace belay::operator_options_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Variables = std::map<std::string, std::string>;

StatusOr<OperatorOptions> Parse(const Variables& variables) {
  return ParseOperatorOptions([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string ErrorOf(const Variables& variables) {
  const Status status = Parse(variables).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

// What becomes of the options, and what is said of that.
struct Applied {
  std::string dir = "run";
  ManagerOptions options;
  std::vector<std::string> notes;
};

Applied Apply(const Variables& variables, const ManagerOptions& options = {}) {
  Applied applied{.options = options};
  applied.notes = ApplyOperatorOptions(Parse(variables).value(), applied.dir,
                                       applied.options);
  return applied;
}

TEST(OperatorOptionsTest, NothingIsSet) {
  for (const Variables& variables :
       {Variables{}, Variables{{"BELAY_DIR", ""},
                               {"BELAY_INTERVAL", ""},
                               {"BELAY_KEEP", ""},
                               {"BELAY_DURABLE", ""},
                               {"BELAY_TRANSFER", ""}}}) {
    const Applied applied = Apply(variables, {.retention = {.max_to_keep = 7}});
    EXPECT_EQ(applied.dir, "run");
    EXPECT_EQ(applied.options.retention.max_to_keep, 7);
    EXPECT_EQ(applied.options.save_policy.save_interval_steps, 1);
    EXPECT_THAT(applied.notes, IsEmpty());
  }
}

TEST(OperatorOptionsTest, AllAreSet) {
  const Applied applied = Apply({{"BELAY_DIR", "/scratch/a b"},
                                 {"BELAY_INTERVAL", "500"},
                                 {"BELAY_KEEP", "0"},
                                 {"BELAY_DURABLE", "0"},
                                 {"BELAY_TRANSFER", "two_phase"}},
                                {.save_policy = {.save_interval_steps = 10}});
  EXPECT_EQ(applied.dir, "/scratch/a b");
  EXPECT_EQ(applied.options.save_policy.save_interval_steps, 500);
  EXPECT_EQ(applied.options.retention.max_to_keep, 0);
  EXPECT_FALSE(applied.options.save.durable);
  EXPECT_EQ(applied.options.save.transfer, Transfer::kTwoPhase);
  EXPECT_THAT(
      applied.notes,
      ElementsAre(
          "BELAY_DIR: the directory is \"/scratch/a b\" in place of \"run\"",
          "BELAY_INTERVAL: save_interval_steps is 500 in place of 10",
          "BELAY_KEEP: max_to_keep is 0 in place of all",
          "BELAY_TRANSFER: save.transfer is two_phase in place of auto",
          "BELAY_DURABLE: save.durable is false in place of true"));
}

TEST(OperatorOptionsTest, Values) {
  const std::map<std::string, Transfer> transfers = {
      {"auto", Transfer::kAuto},
      {"independent", Transfer::kIndependent},
      {"two_phase", Transfer::kTwoPhase},
      {"collective", Transfer::kCollective},
      {"hdf5", Transfer::kHdf5}};
  for (const auto& [name, transfer] : transfers) {
    EXPECT_EQ(Apply({{"BELAY_TRANSFER", name}}).options.save.transfer,
              transfer);
  }
  EXPECT_TRUE(Apply({{"BELAY_DURABLE", "1"}}, {.save = {.durable = false}})
                  .options.save.durable);
  EXPECT_EQ(Apply({{"BELAY_INTERVAL", "9223372036854775807"}})
                .options.save_policy.save_interval_steps,
            INT64_MAX);
}

TEST(OperatorOptionsTest, WhatCannotBeParsed) {
  EXPECT_EQ(ErrorOf({{"BELAY_INTERVAL", "0"}}),
            "BELAY_INTERVAL is invalid (need a whole number of at least 1, "
            "found \"0\")");
  for (const char* const bad :
       {"three", "-1", "+1", " 1", "1 ", "1.5", "9223372036854775808"}) {
    EXPECT_EQ(ErrorOf({{"BELAY_KEEP", bad}}),
              std::string("BELAY_KEEP is invalid (need a whole number of at "
                          "least 0, found \"") +
                  bad + "\")");
    EXPECT_THAT(ErrorOf({{"BELAY_INTERVAL", bad}}), HasSubstr(bad));
  }
  EXPECT_EQ(ErrorOf({{"BELAY_DURABLE", "yes"}}),
            "BELAY_DURABLE is invalid (need true or false, found \"yes\")");
  EXPECT_EQ(ErrorOf({{"BELAY_TRANSFER", "Auto"}}),
            "BELAY_TRANSFER is invalid (need collective, independent, hdf5, "
            "two_phase, auto, found \"Auto\")");
  EXPECT_THAT(ErrorOf({{"BELAY_KEEP", "x"}, {"BELAY_TRANSFER", "y"}}),
              AllOf(HasSubstr("BELAY_KEEP is"), HasSubstr("BELAY_TRANSFER")));
}

// Otherwise the options would contradict each other.
TEST(OperatorOptionsTest, RulesInWhosePlaceTheyAre) {
  const int64_t counter = 0;
  ManagerOptions rules{
      .save_policy = {.should_save = [](int64_t, auto) { return true; },
                      .step_counter = &counter,
                      .checkpoint_interval = 3,
                      .auto_interval = AutoInterval{.mtbf_seconds = 60}},
      .retention = {.preservation = LatestN(2)}};
  const Applied applied =
      Apply({{"BELAY_INTERVAL", "5"}, {"BELAY_KEEP", "4"}}, rules);
  EXPECT_EQ(applied.options.save_policy.should_save, nullptr);
  EXPECT_FALSE(applied.options.save_policy.checkpoint_interval.has_value());
  EXPECT_FALSE(applied.options.save_policy.auto_interval.has_value());
  EXPECT_FALSE(applied.options.retention.preservation.has_value());
  EXPECT_EQ(applied.options.save_policy.step_counter, &counter);
  EXPECT_THAT(applied.notes,
              ElementsAre("BELAY_INTERVAL: save_interval_steps is 5 in place "
                          "of 1 and of should_save and of checkpoint_interval "
                          "and of auto_interval",
                          "BELAY_KEEP: max_to_keep is 4 in place of all and of "
                          "preservation"));
}

TEST(OperatorOptionsTest, AReaderTakesTheDirectoryAlone) {
  const Applied applied = Apply({{"BELAY_DIR", "other"},
                                 {"BELAY_INTERVAL", "5"},
                                 {"BELAY_KEEP", "4"},
                                 {"BELAY_DURABLE", "0"},
                                 {"BELAY_TRANSFER", "hdf5"}},
                                {.read_only = true});
  EXPECT_EQ(applied.dir, "other");
  EXPECT_EQ(applied.options.save_policy.save_interval_steps, 1);
  EXPECT_FALSE(applied.options.retention.max_to_keep.has_value());
  EXPECT_THAT(applied.notes, ElementsAre(HasSubstr("BELAY_DIR")));
}

TEST(OperatorOptionsTest, MisspeltVariables) {
  EXPECT_THAT(
      MisspeltVariables({"BELAY_KEEP", "BELAY_KEPT", "BELAY_INTERVALS",
                         "BELAY_LOGS", "BELAY_FOLLOW_LINK", "BELAY_TEST_IO",
                         "BELAY_", "PATH", "MY_BELAY_KEPT", "BELAY_HOME"}),
      ElementsAre(
          "belay has no variable BELAY_KEPT; close to it: BELAY_KEEP",
          "belay has no variable BELAY_INTERVALS; close to it: BELAY_INTERVAL",
          "belay has no variable BELAY_LOGS; close to it: BELAY_LOG",
          "belay has no variable BELAY_FOLLOW_LINK; close to it: "
          "BELAY_FOLLOW_LINKS"));
}

TEST(OperatorOptionsTest, OptionsByTheirNames) {
  const Applied applied = Apply(
      {{"BELAY_OPTIONS", "max_to_keep=3 read_back transfer=hdf5"},
       {"BELAY_KEEP", "4"}},
      {.save_policy = {.save_interval_steps = 10}, .tolerated_failures = 1});
  EXPECT_EQ(applied.options.retention.max_to_keep, 4) << "the variable of it";
  EXPECT_TRUE(applied.options.save.read_back);
  EXPECT_EQ(applied.options.save.transfer, Transfer::kHdf5);
  EXPECT_EQ(applied.options.save_policy.save_interval_steps, 10);
  EXPECT_EQ(applied.options.tolerated_failures, 1);
  EXPECT_THAT(applied.notes,
              ElementsAre("BELAY_OPTIONS: max_to_keep=3 read_back "
                          "transfer=hdf5 in place of what the program sets",
                          "BELAY_KEEP: max_to_keep is 4 in place of 3"));
  SaveOptions save;
  ApplyToSave(Parse({{"BELAY_OPTIONS", "read_back max_to_keep=3"}}).value(),
              save);
  EXPECT_TRUE(save.read_back);
  ManagerOptions reader{.read_only = true};
  EXPECT_THAT(Apply({{"BELAY_OPTIONS", "max_to_keep=3"}}, reader).notes,
              IsEmpty());
}

TEST(OperatorOptionsTest, NamedOptionsReplaceRules) {
  const ManagerOptions rules{
      .save_policy = {.should_save =
                          [](int64_t, std::optional<int64_t>) { return true; }},
      .retention = {.preservation = LatestN(2)}};
  const Applied steps =
      Apply({{"BELAY_OPTIONS", "save_interval_steps=5 max_to_keep=1"}}, rules);
  EXPECT_EQ(steps.options.save_policy.should_save, nullptr);
  EXPECT_FALSE(steps.options.retention.preservation.has_value());
  EXPECT_THAT(steps.notes,
              ElementsAre("BELAY_OPTIONS: save_interval_steps=5 max_to_keep=1 "
                          "in place of what the program sets and of "
                          "should_save and of preservation"));
  const ManagerOptions automatic_rules{
      .save_policy = {.auto_interval = AutoInterval{.mtbf_seconds = 1e9}}};
  const Applied added = Apply({{"BELAY_OPTIONS",
                                "save_first_step=false "
                                "overhead_budget=0.001"}},
                              automatic_rules);
  EXPECT_EQ(added.options.save_policy.auto_interval->mtbf_seconds, 1e9);
  EXPECT_EQ(added.options.save_policy.auto_interval->overhead_budget, 0.001);
  const int64_t counter = 0;
  const Applied automatic = Apply(
      {{"BELAY_OPTIONS", "mtbf_seconds=3600"}},
      {.save_policy = {.save_interval_steps = 7, .step_counter = &counter}});
  EXPECT_EQ(automatic.options.save_policy.save_interval_steps, 1);
  EXPECT_EQ(automatic.options.save_policy.step_counter, &counter);
  EXPECT_EQ(automatic.options.save_policy.auto_interval->mtbf_seconds, 3600);
}

TEST(OperatorOptionsTest, MistakesInNamedOptions) {
  EXPECT_THAT(ErrorOf({{"BELAY_OPTIONS", "max_to_kep=3"}}),
              AllOf(HasSubstr("BELAY_OPTIONS: option \"max_to_kep\": no such "
                              "option here"),
                    HasSubstr("close to it: \"max_to_keep\"")));
  EXPECT_THAT(ErrorOf({{"BELAY_OPTIONS", "max_to_keep=-3"}}),
              HasSubstr("BELAY_OPTIONS: max_to_keep is out of range (need at "
                        "least 0, found -3)"));
  for (const std::string option :
       {"snapshot=lazy", "deadline_seconds=5", "read_only", "prefix=other"}) {
    EXPECT_THAT(ErrorOf({{"BELAY_OPTIONS", option}}),
                HasSubstr("BELAY_OPTIONS: only the program can set " +
                          option.substr(0, option.find('='))));
  }
  EXPECT_THAT(ErrorOf({{"BELAY_OPTIONS", "durable='"}}),
              HasSubstr("BELAY_OPTIONS: options \"durable='\": a quote "
                        "without its end"));
}

}  // namespace
}  // namespace belay::operator_options_test
