// What a restore of a State has to match, and which step it takes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "state_manager_testing.h"

namespace belay::testing::state_match_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StateMatchTest : public StateManagerTest {};

// What is added to it later, is saved.
TEST_F(StateMatchTest, TheStateMayGrow) {
  State state;
  int64_t first = 1, second = 2;
  state.Add("first", first);
  auto manager = ManageOf(state);
  ASSERT_EQ(manager.status(), absl::OkStatus());
  ASSERT_EQ(manager->Save(1).status(), absl::OkStatus());
  state.Add("second", second);
  EXPECT_EQ(manager->Save(2)->result.num_arrays, 2);
  first = second = 0;
  ASSERT_EQ(manager->RestoreLatest()->step, 2);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  EXPECT_THAT(
      SameError(manager->Restore(1).status(), absl::StatusCode::kNotFound),
      HasSubstr("\"second\": key is not in the checkpoint"));
}

TEST_F(StateMatchTest, ADamagedStepIsPassedOver) {
  { CheckpointManager manager = Begin({}); }
  OnRank0([&] {
    fs::resize_file(File("step_00000004/data_00000_of_00001.h5"), 100);
    fs::resize_file(File("step_00000003/index.h5"), 100);
  });
  program_.Set(0);
  auto manager = Manage();
  ASSERT_EQ(manager.status(), absl::OkStatus());
  const auto restored = manager->RestoreOrInitialize();
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_EQ(restored->step, 2);
  EXPECT_TRUE(program_.Is(2));
  ASSERT_EQ(restored->skipped.size(), 2U);
  EXPECT_EQ(restored->skipped[0].step, 4);
  EXPECT_EQ(restored->skipped[1].step, 3);
  EXPECT_THAT(restored->ToString(), HasSubstr("\nskipped step 4: DATA_LOSS: "));
  // A save takes the number again.
  EXPECT_EQ(SaveStep(*manager, 3)->outcome, SaveOutcome::kSaved);
}

// As after a purge of old files, or a copy that was not complete.
TEST_F(StateMatchTest, AStepWithoutItsIndexIsReplaced) {
  { CheckpointManager manager = Begin({}); }
  OnRank0([&] { fs::remove(File("step_00000004/index.h5")); });
  auto manager = Manage();
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_EQ(manager->RestoreOrInitialize()->step, 3);
  EXPECT_EQ(SaveStep(*manager, 4)->outcome, SaveOutcome::kSaved);
  EXPECT_EQ(manager->RestoreLatest()->step, 4);
}

// A directory that is a copy of another step is not that step.
TEST_F(StateMatchTest, ACopyUnderAnotherNumberIsDamage) {
  { CheckpointManager manager = Begin({}); }
  OnRank0(
      [&] { fs::copy(StepDir(2), StepDir(5), fs::copy_options::recursive); });
  auto manager = Manage();
  ASSERT_EQ(manager.status(), absl::OkStatus());
  const auto restored = manager->RestoreOrInitialize();
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_EQ(restored->step, 4);
  ASSERT_EQ(restored->skipped.size(), 1U);
  EXPECT_THAT(std::string(restored->skipped[0].status.message()),
              HasSubstr("the index is of another step (need 5, found 2)"));
}

// What was renamed would begin anew, and nobody would know.
TEST_F(StateMatchTest, WhatDoesNotMatch) {
  double rate = 0.5, other = 3;
  State saved, renamed, half, nothing;
  saved.Add("learning_rate", rate);
  saved.Add("other", other);
  {
    auto manager = ManageOf(saved);
    ASSERT_EQ(manager.status(), absl::OkStatus());
    ASSERT_EQ(manager->Save(1).status(), absl::OkStatus());
    ASSERT_EQ(manager->Save(2).status(), absl::OkStatus());
  }
  rate = other = -1;
  renamed.Add("learnin_rate", rate);
  half.Add("other", other);
  half.Add("learnin_rate", rate);
  const std::string what = "\"learnin_rate\": key is not in the checkpoint";
  const std::string closest = "\"learning_rate\"";
  for (const RestoreMatch match :
       {RestoreMatch::kNontrivial, RestoreMatch::kExistingObjects,
        RestoreMatch::kConsumed}) {
    const Status status = RestoreInto(renamed, match);
    EXPECT_FALSE(status.ok());
    if (match == RestoreMatch::kConsumed) {
      // Of the two mistakes, that one is found first.
      EXPECT_THAT(SameError(status, absl::StatusCode::kFailedPrecondition),
                  HasSubstr(closest));
      continue;
    }
    EXPECT_THAT(SameError(status, absl::StatusCode::kNotFound),
                AllOf(HasSubstr(what), HasSubstr(closest)));
  }
  EXPECT_EQ(RestoreInto(renamed, RestoreMatch::kAnything), absl::OkStatus());
  EXPECT_EQ(rate, -1);
  EXPECT_THAT(SameError(RestoreInto(half, RestoreMatch::kExistingObjects),
                        absl::StatusCode::kNotFound),
              AllOf(HasSubstr(what), HasSubstr(closest)));
  EXPECT_EQ(RestoreInto(half, RestoreMatch::kNontrivial), absl::OkStatus());
  EXPECT_EQ(other, 3);
  // One restore may say it otherwise.
  other = -1;
  EXPECT_EQ(RestoreInto(half, RestoreMatch::kExistingObjects,
                        {.missing = MismatchPolicy::kCollect}),
            absl::OkStatus());
  EXPECT_EQ(other, 3);
  EXPECT_EQ(RestoreInto(saved, RestoreMatch::kConsumed), absl::OkStatus());
  EXPECT_EQ(rate, 0.5);
}

TEST_F(StateMatchTest, WhatWasLeftOutIsTold) {
  double other = 3;
  State saved, more;
  saved.Add("other", other);
  {
    auto manager = ManageOf(saved);
    ASSERT_EQ(manager.status(), absl::OkStatus());
    ASSERT_EQ(manager->Save(1).status(), absl::OkStatus());
  }
  more.Add("other", other);
  double added = 7;
  more.Add("added", added);
  auto manager = ManageOf(more, {.restore_match = RestoreMatch::kNontrivial});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  const auto restored = manager->RestoreOrInitialize();
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_THAT(restored->result->missing, ElementsAre("added"));
  EXPECT_THAT(restored->ToString(), HasSubstr("\nnot stored: "));
  EXPECT_EQ(added, 7);
}

// Another type is a mistake of the program, and no older step would help.
TEST_F(StateMatchTest, AnotherTypeIsAnError) {
  { CheckpointManager manager = Begin({}); }
  float number = 0;
  State state;
  state.Add("number", number);
  EXPECT_THAT(SameError(RestoreInto(state, RestoreMatch::kExistingObjects),
                        absl::StatusCode::kFailedPrecondition),
              HasSubstr("\"number\": the stored dtype differs (need f32, found "
                        "i64"));
  EXPECT_EQ(RestoreInto(state, RestoreMatch::kExistingObjects,
                        {.allow_dtype_cast = true}),
            absl::OkStatus());
  EXPECT_EQ(number, 4);
}

}  // namespace
}  // namespace belay::testing::state_match_test
