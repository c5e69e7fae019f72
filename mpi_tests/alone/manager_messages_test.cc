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
  auto manager = Manage({.auto_interval = AutoInterval{.mtbf_seconds = 1e9},
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

// The answer of rank 0 for the step itself is no more than that.
TEST_F(ManagerMessagesTest, WithShouldSave) {
  auto manager =
      Manage({.should_save = [](int64_t step, std::optional<int64_t>) {
        return step % 2 == 0;
      }});
  for (int64_t step = 1; step < 20; ++step) {
    EXPECT_THAT(MessagesOf(*manager, step), ElementsAre("MPI_Iallreduce 8"));
  }
}

}  // namespace
}  // namespace belay
