// What ShouldSave sends, counted between the library and MPI.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "counted_calls.h"
#include "manager_testing.h"

namespace belay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::ManagerTest;

class ManagerMessagesTest : public ManagerTest {
 protected:
  // What is sent by ShouldSave.
  static std::vector<std::string> MessagesOf(CheckpointManager& manager,
                                             int64_t step) {
    return testing::CallsOf([&] {
      EXPECT_EQ(manager.ShouldSave(step).status(), absl::OkStatus());
    });
  }
};

TEST_F(ManagerMessagesTest, OneReductionOfEightBytesForEachStep) {
  auto manager = Manage(
      {.save_policy = {.auto_interval = AutoInterval{.mtbf_seconds = 1e9}},
       .stop_signals = {SIGUSR1},
       .end_time = time_ + 1e9});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  SaveAll(*manager, 0, 1);
  for (int64_t step = 1; step < 100; ++step) {
    EXPECT_THAT(MessagesOf(*manager, step), ElementsAre("MPI_Iallreduce 8"));
  }
  kill(getpid(), SIGUSR1);
  EXPECT_THAT(MessagesOf(*manager, 100), ElementsAre("MPI_Iallreduce 8"));
  // Also the name of the signal and its rank came with it.
  EXPECT_THAT(MessagesOf(*manager, 101), IsEmpty());
  EXPECT_EQ(manager->ShouldStop()->ToString(), "SIGUSR1 on rank 0");
  EXPECT_THAT(MessagesOf(*manager, 102), IsEmpty());
}

// Where no rule asks for the step, Save is as quick as ShouldSave: the ranks
// compare what they were called with, and nobody asks rank 0.
TEST_F(ManagerMessagesTest, ASaveThatIsNotDueIsOneReduction) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 100}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  SaveAll(*manager, 100, 101);
  for (int64_t step = 101; step < 120; ++step) {
    const std::vector<std::string> calls = testing::CallsOf([&] {
      const StatusOr<ManagedSave> saved = manager->Save(step);
      ASSERT_EQ(saved.status(), absl::OkStatus());
      EXPECT_EQ(saved->outcome, SaveOutcome::kSkipped);
      EXPECT_NE(saved->reason, "");
    });
    EXPECT_EQ(calls.size(), 1) << calls.back();
    EXPECT_TRUE(calls.front().starts_with("MPI_Iallreduce "));
  }
  // Ranks that pass different steps are told so, due or not.
  const int last = program_.comm().size() - 1;
  if (last > 0) {
    const Status status =
        manager->Save(program_.comm().rank() == last ? 200 : 150).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("save: the step, step_counter or force"));
  }
  EXPECT_EQ(manager->Save(200)->outcome, SaveOutcome::kSaved);
}

// The answer of rank 0 for the step itself is no more than that.
TEST_F(ManagerMessagesTest, WithShouldSave) {
  auto manager = Manage(
      {.save_policy = {.should_save = [](int64_t step, std::optional<int64_t>) {
         return step % 2 == 0;
       }}});
  for (int64_t step = 1; step < 20; ++step) {
    EXPECT_THAT(MessagesOf(*manager, step), ElementsAre("MPI_Iallreduce 8"));
  }
}

}  // namespace
}  // namespace belay
