// Whether the first step is saved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "manager_testing.h"

namespace belay::testing::first_step_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FirstStepTest : public ManagerTest {};

// Nothing is saved right after the start, neither then nor after a restart.
TEST_F(FirstStepTest, IsLeftOut) {
  const ManagerOptions options{.save_interval_steps = 3,
                               .save_first_step = false};
  const auto saved = [&](CheckpointManager& manager, int64_t first) {
    Steps asked;
    for (int64_t step = first; step < first + 5; ++step) {
      if (manager.ShouldSave(step).value()) {
        asked.push_back(step);
        EXPECT_TRUE(SaveStep(manager, step)->saved);
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
  EXPECT_THAT(SaveStep(*manager, 10)->reason, HasSubstr("no multiple of 3"));
}

}  // namespace
}  // namespace belay::testing::first_step_test
