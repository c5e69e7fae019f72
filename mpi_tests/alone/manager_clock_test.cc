// Somebody sets the system's clock while a manager runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "belay/checkpoint_reader.h"
#include "manager_testing.h"

namespace {

double g_ahead = 0;  // seconds

// Local.
int TimeOf(clockid_t clock, timespec* time) {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += static_cast<time_t>(g_ahead);
  return result;
}

}  // namespace

// These take the place of the C library's in the whole program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  return TimeOf(clock, time);
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now = {};
  const int result = TimeOf(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return result;
}

extern "C" time_t time(time_t* time) noexcept {
  timespec now = {};
  TimeOf(CLOCK_REALTIME, &now);
  if (time != nullptr) *time = now.tv_sec;
  return now.tv_sec;
}

namespace belay::manager_clock_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ManagerTest;
using testing::Steps;

constexpr double kHour = 3600;
constexpr double kDay = 24 * kHour;

double Clock() {
  const std::chrono::duration<double> since =
      std::chrono::system_clock::now().time_since_epoch();
  return since.count();
}

class ManagerClockTest : public ManagerTest {
 protected:
  ManagerClockTest() {
    g_ahead = 0;
    const double before = Clock();
    g_ahead = kDay;
    EXPECT_GE(Clock(), before + kDay);  // it can be set at all
    g_ahead = 0;
  }
  ~ManagerClockTest() override { g_ahead = 0; }

  // With the system's clock.
  StatusOr<CheckpointManager> Begin(ManagerOptions options) {
    options.save.durable = false;
    options.save.deadline_seconds = 60;
    return CheckpointManager::Create(program_.checkpoint(), Run(), options);
  }

  Steps SavedWhileItIsSet(const ManagerOptions& options) {
    auto manager = Begin(options);
    EXPECT_EQ(manager.status(), absl::OkStatus());
    int64_t step = 0;
    for (const double ahead : {0.0, 30 * kHour, -30 * kHour, 0.0}) {
      g_ahead = ahead;
      const auto saved = SaveStep(*manager, step++);
      EXPECT_EQ(saved.status(), absl::OkStatus());
      EXPECT_THAT(saved->notes, ElementsAre());
    }
    return OnDisk();
  }
};

// Within seconds, whatever the clock says.
TEST_F(ManagerClockTest, NothingIsDeletedThatIsToBeKept) {
  EXPECT_EQ(
      SavedWhileItIsSet({.retention = {.preservation = LatestDuration(kHour)}}),
      Steps({0, 1, 2, 3}));
}

TEST_F(ManagerClockTest, NothingIsKeptForIt) {
  EXPECT_EQ(SavedWhileItIsSet(
                {.retention = {.max_to_keep = 1, .keep_time_interval = kHour}}),
            Steps({0, 3}));
}

// Neither put off for a day nor taken for a long step or a long save.
TEST_F(ManagerClockTest, AutoIntervalAndTheTimeLimitGoOn) {
  for (const double ahead : {kDay, -kDay}) {
    g_ahead = 0;
    const double end = Clock() + 3 * kDay;
    auto manager = Begin(
        {.save_policy = {.save_interval_steps = 1,
                         .auto_interval = AutoInterval{.mtbf_seconds = 1e-3,
                                                       .overhead_budget = 0.9}},
         .end_time = end});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    const int64_t first = manager->LatestStep().value_or(-1) + 1;
    int saves = 0;
    for (int64_t step = first; step < first + 2000 && saves < 5; ++step) {
      if (step == first + 5) g_ahead = ahead;
      const auto should = manager->ShouldSave(step);
      ASSERT_EQ(should.status(), absl::OkStatus());
      if (*should) {
        saves +=
            SaveStep(*manager, step)->outcome == SaveOutcome::kSaved ? 1 : 0;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(manager->ShouldStop(), std::nullopt) << step;
    }
    EXPECT_EQ(saves, 5);
  }
}

// An index has a time from 1970 to 9999.
TEST_F(ManagerClockTest, ATimeThatAnIndexCannotHaveIsStoredAsTheNearest) {
  constexpr int64_t kLastTime = 253402300799;
  const Comm comm = Comm::Duplicate(MPI_COMM_WORLD).value();
  double value = 1;
  State state;
  state.AddReplicated("v", {}, AtAddress(&value));
  int64_t step = 0;
  for (const auto& [ahead, time] :
       {std::pair(-1e11, int64_t{0}), std::pair(1e12, kLastTime)}) {
    g_ahead = ahead;
    const auto saved = Save(comm, Run(), ++step, state, {.durable = false});
    ASSERT_TRUE(saved.ok()) << saved.status();
    const auto info = ReadCheckpointInfo(saved->path);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->time, time);
  }
}

// What is wrong, the clock or the one that goes on from the start, nobody
// knows.
TEST_F(ManagerClockTest, TheEarlierEndCounts) {
  for (const double ahead : {kDay, -kDay}) {
    g_ahead = 0;
    const double rest = ahead > 0 ? kHour : 0.3;
    auto manager = Begin({.save_policy = {.save_interval_steps = 100},
                          .end_time = Clock() + rest,
                          .final_save_margin = 0});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    g_ahead = ahead;
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    EXPECT_TRUE(manager->ShouldSave(1).ok());
    EXPECT_TRUE(manager->ShouldSave(2).ok());
    ASSERT_NE(manager->ShouldStop(), std::nullopt);
    EXPECT_THAT(manager->ShouldStop()->ToString(), HasSubstr("time limit"));
  }
}

}  // namespace
}  // namespace belay::manager_clock_test
