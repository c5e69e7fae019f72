// Whether the first step is saved, and what is said if no step is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/log.h"
#include "manager_testing.h"

namespace belay::testing::first_step_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FirstStepTest : public ManagerTest {
 protected:
  void SetUp() override {
    SetLogSink([this](LogLevel,
                      std::string_view line) { warnings_.emplace_back(line); },
               LogLevel::kWarning);
  }
  void TearDown() override { SetLogSink(nullptr); }

  std::vector<std::string> warnings_;
};

// Nothing is saved right after the start, neither then nor after a restart.
TEST_F(FirstStepTest, IsLeftOut) {
  const ManagerOptions options{
      .save_policy = {.save_interval_steps = 3, .save_first_step = false}};
  const auto saved = [&](CheckpointManager& manager, int64_t first) {
    Steps asked;
    for (int64_t step = first; step < first + 5; ++step) {
      if (manager.ShouldSave(step).value()) {
        asked.push_back(step);
        EXPECT_EQ(SaveStep(manager, step)->outcome, SaveOutcome::kSaved);
      }
    }
    return asked;
  };
  std::optional<CheckpointManager> manager = *Manage(options);
  EXPECT_THAT(saved(*manager, 0), ElementsAre(3));
  manager.reset();
  manager = *Manage(options);
  ASSERT_EQ(manager->RestoreOrInitialize()->step, 3);
  EXPECT_THAT(saved(*manager, 4), ElementsAre(6));
  EXPECT_THAT(SaveStep(*manager, 10)->reason, HasSubstr("multiple of 3"));
}

TEST_F(FirstStepTest, AWarningSaysWhereNoStepIs) {
  auto manager = *Manage();
  EXPECT_EQ(manager.RestoreOrInitialize()->step, std::nullopt);
  const std::vector<std::string> expected = {
      "restore \"" + Run() +
      "\": no step is there, so nothing was restored and the program begins "
      "anew"};
  EXPECT_THAT(warnings_,
              WorldRank() == 0 ? expected : std::vector<std::string>{});
}

// A program that begins anew in a used directory would save nothing, and its
// result is easily overlooked.
TEST_F(FirstStepTest, IsNotSavedInAUsedDirectoryWhichAWarningSays) {
  std::optional<CheckpointManager> manager = *Manage();
  SaveAll(*manager, 0, 5);
  EXPECT_EQ(SaveStep(*manager, 4)->outcome, SaveOutcome::kSkipped);
  EXPECT_THAT(warnings_, IsEmpty());
  const std::string warning =
      "save \"" + Run() +
      "\": step 0 is not saved, and no step will be up to the latest one "
      "there, 4, because this manager has not restored anything; call Restore "
      "or RestoreOrInitialize first to go on from step 4, or use an empty "
      "directory to begin anew";
  for (const bool asks : {false, true}) {
    manager.reset();
    manager = *Manage();
    warnings_.clear();
    for (int64_t step = 0; step < 3; ++step) {
      if (asks) {
        EXPECT_FALSE(manager->ShouldSave(step).value());
      } else {
        EXPECT_EQ(SaveStep(*manager, step)->outcome, SaveOutcome::kSkipped);
      }
    }
    EXPECT_THAT(warnings_, WorldRank() == 0 ? std::vector<std::string>{warning}
                                            : std::vector<std::string>{});
  }
  // Whoever has restored knows what is there.
  manager.reset();
  manager = *Manage();
  warnings_.clear();
  EXPECT_EQ(manager->RestoreOrInitialize()->step, 4);
  EXPECT_EQ(SaveStep(*manager, 4)->outcome, SaveOutcome::kSkipped);
  EXPECT_THAT(warnings_, IsEmpty());
}

// The loop of a program that restores begins at 0 all the same.
TEST_F(FirstStepTest, BeforeTheRestoredOneIsNotSavedWhichAWarningSays) {
  std::optional<CheckpointManager> manager = *Manage();
  SaveAll(*manager, 0, 5);
  manager.reset();
  manager = *Manage();
  warnings_.clear();
  EXPECT_EQ(manager->RestoreOrInitialize()->step, 4);
  SaveAll(*manager, 0, 6);
  EXPECT_EQ(manager->Steps(), (Steps{0, 1, 2, 3, 4, 5}));
  const std::vector<std::string> expected = {
      "save \"" + Run() +
      "\": step 0 is not saved, and no step will be up to the latest one "
      "there, 4: step 4 was restored, but the program counts from before it; "
      "let its loop begin at step 5"};
  EXPECT_THAT(warnings_,
              WorldRank() == 0 ? expected : std::vector<std::string>{});
}

}  // namespace
}  // namespace belay::testing::first_step_test
