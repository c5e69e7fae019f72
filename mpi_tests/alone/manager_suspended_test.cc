// The time in which a job was suspended is none of its saves, restores or
// steps.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "manager/manager_impl.h"
#include "manager_testing.h"

namespace belay {
namespace {

using testing::ManagerTest;
using testing::WorldRank;

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// As a batch system suspends a job, once it has worked for a moment.
void BeSuspendedFor(double seconds) {
  const pid_t rank = getpid();
  const pid_t slurm = fork();
  if (slurm == 0) {
    Sleep(0.3);
    kill(rank, SIGSTOP);
    Sleep(seconds);
    kill(rank, SIGCONT);
    _exit(0);
  }
  waitpid(slurm, nullptr, 0);
}

class ManagerSuspendedTest : public ManagerTest {
 protected:
  static constexpr double kSuspended = 4;

  // What a manager holds that watches a job's time limit.
  CheckpointManager::Impl Watching() {
    ManagerOptions options{.stop_at_time_limit = true};
    options.save.durable = false;
    options.save.deadline_seconds = 60;
    CheckpointManager::Impl impl(ManagedValues(program_.checkpoint()), Run(),
                                 options);
    if (WorldRank() != 0) return impl;
    impl.stopping_.limit = std::make_unique<TimeLimit>(
        TimeLimitOptions{.command = {"echo", "1:00:00"},
                         .every_seconds = 1000,
                         .command_seconds = 0.5});
    while (!impl.stopping_.limit->SecondsLeft()) Sleep(0.01);
    return impl;
  }

  static double WorkedBy(const CheckpointManager::Impl& impl) {
    return impl.WorkedBy(impl.Now().value());
  }
};

TEST_F(ManagerSuspendedTest, DoesNotCount) {
  {
    auto manager = Manage();
    SaveAll(*manager, 0, 1);
  }
  CheckpointManager::Impl impl = Watching();
  const double began = WorkedBy(impl);
  const std::optional<double> restore_began = impl.TimeOfRestore();
  if (WorldRank() == 0) BeSuspendedFor(kSuspended);
  const StatusOr<KeepOutcome> outcome = impl.KeepSteps(0, began, false);
  ASSERT_EQ(outcome.status(), absl::OkStatus());
  impl.NoteTimes(outcome->times);
  ASSERT_EQ(impl.stopping_.use.saves.size(), 1u);
  EXPECT_LT(impl.stopping_.use.saves[0], kSuspended / 2);
  if (WorldRank() != 0) return;
  // The next step begins where the save has ended.
  Sleep(0.2);
  double step = WorkedBy(impl) - impl.stopping_.last_call.value();
  EXPECT_GE(step, 0.15);
  EXPECT_LT(step, kSuspended / 2);
  impl.NoteRestore(restore_began);
  EXPECT_LT(impl.stopping_.use.restore.value(), kSuspended / 2);
  Sleep(0.2);
  step = WorkedBy(impl) - impl.stopping_.last_call.value();
  EXPECT_GE(step, 0.15);
  EXPECT_LT(step, kSuspended / 2);
}

}  // namespace
}  // namespace belay
