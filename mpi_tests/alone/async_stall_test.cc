// A disk that stalls, and a job that is suspended, while a step is written or
// removed in the background.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "belay/async_saver.h"
#include "belay/checkpoint_manager.h"
#include "manager_testing.h"
#include "values.h"

namespace {

std::atomic<int> stall_milliseconds{0};
std::atomic<bool> holds_removals{false};

void WaitIfHeld() {
  while (gettid() != getpid() && holds_removals) usleep(1000);
}

}  // namespace

// The library's calls land here. Only those of the thread stall.
extern "C" int fsync(int fd) {
  if (gettid() != getpid()) usleep(stall_milliseconds * 1000);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int unlink(const char* path) noexcept {
  WaitIfHeld();
  return static_cast<int>(syscall(SYS_unlink, path));
}

extern "C" int unlinkat(int fd, const char* path, int flags) noexcept {
  WaitIfHeld();
  return static_cast<int>(syscall(SYS_unlinkat, fd, path, flags));
}

namespace belay::testing {
namespace {

using ::testing::ElementsAre;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

class AsyncStallTest : public CheckpointTest {
 protected:
  AsyncStallTest() {
    values_.AddCut("w", DType::kF32, {64 * size_, 33}, 0, rank_, size_);
  }
  ~AsyncStallTest() override { stall_milliseconds = 0; }

  PendingSave Begin(AsyncSaver& saver, int64_t step) {
    values_.Fill(static_cast<uint64_t>(step));
    return Ok(
        saver.Save(run(), step, values_.MakeState(), {.deadline_seconds = 20}));
  }

  // What is left of steps that are removed.
  int64_t NumInProgress() const {
    const std::filesystem::directory_iterator names(run());
    return std::count_if(begin(names), end(names), [](const auto& entry) {
      return entry.path().extension() == ".inprogress";
    });
  }

  // Saves the step, and returns once it is committed.
  void SaveManaged(CheckpointManager& manager, int64_t step) {
    values_.Fill(static_cast<uint64_t>(step));
    Ok(manager.Save(step));
    while (manager.LatestStep() != step) {
      Ok(manager.ShouldSave(step));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Step 2 is committed, and the thread waits before it removes step 1.
  CheckpointManager SaveTwoAndHoldTheRemoval(const State& state) {
    CheckpointManager manager =
        Ok(CheckpointManager::Create(comm_, state, run(),
                                     {.async = AsyncOptions(),
                                      .retention = {.max_to_keep = 1},
                                      .save = {.durable = false}}));
    SaveManaged(manager, 1);
    holds_removals = true;
    SaveManaged(manager, 2);
    return manager;
  }

  Values values_;
};

// The program trains on, and the step before can be restored.
TEST_F(AsyncStallTest, NobodyWaitsForAStalledSync) {
  AsyncSaver saver(comm_);
  Begin(saver, 1);
  Ok(saver.Wait());
  stall_milliseconds = 1500;
  Begin(saver, 2);
  EXPECT_THAT(Ok(ListSteps(run())), ElementsAre(1));
  const Clock::time_point start = Clock::now();
  double longest = 0;
  std::optional<SaveResult> result;
  while (!result) {
    const Clock::time_point called = Clock::now();
    result = Ok(saver.Poll());
    longest = std::max(longest, Seconds(Clock::now() - called).count());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // The data files, then the index and the directories.
  EXPECT_GE(Seconds(Clock::now() - start).count(), 3);
  EXPECT_LE(longest, 0.7);
  ExpectRestores(values_, 1, 1);
  ExpectRestores(values_, 2, 2);
}

// A file system may take seconds to remove a large step.
TEST_F(AsyncStallTest, NobodyWaitsForTheRemovalOfAStep) {
  State state = values_.MakeState();
  CheckpointManager manager = SaveTwoAndHoldTheRemoval(state);
  EXPECT_EQ(manager.Steps(), std::vector<int64_t>{2});
  EXPECT_THAT(Ok(ListSteps(run())), ElementsAre(2));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(NumInProgress(), 1);
  MPI_Barrier(MPI_COMM_WORLD);
  holds_removals = false;
  SaveManaged(manager, 3);
  Ok(manager.Wait());
  EXPECT_THAT(Ok(ListSteps(run())), ElementsAre(3));
  EXPECT_EQ(NumInProgress(), 0);
}

// A restore could find the state, or take a step, that the thread works on.
TEST_F(AsyncStallTest, ARestoreWaitsForWhatFollowsACommit) {
  State state = values_.MakeState();
  CheckpointManager manager = SaveTwoAndHoldTheRemoval(state);
  std::thread release([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    holds_removals = false;
  });
  EXPECT_EQ(Ok(manager.RestoreLatest()).step, 2);
  EXPECT_EQ(NumInProgress(), 0);
  release.join();
}

// As a batch system suspends a job, for longer than the deadline.
TEST_F(AsyncStallTest, ASuspendedJobGoesOn) {
  AsyncSaver saver(comm_, {.max_bytes_per_second = 12000});
  values_.Fill(1);
  Ok(saver.Save(run(), 1, values_.MakeState(), {.deadline_seconds = 2}));
  const pid_t rank = getpid();
  const pid_t batch_system = fork();
  if (batch_system == 0) {
    usleep(100'000);
    kill(rank, SIGSTOP);
    usleep(4'000'000);
    kill(rank, SIGCONT);
    _exit(0);
  }
  Ok(saver.Wait());
  waitpid(batch_system, nullptr, 0);
  ExpectRestores(values_, 1, 1);
}

}  // namespace
}  // namespace belay::testing
