// Stopping: what ranks agree on beside each step, and the last save.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "core/fault.h"
#include "manager_testing.h"

namespace belay {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ManagerTest;
using testing::OnRank0;
using testing::Steps;
using testing::WorldRank;
using testing::WorldSize;

void SignalTo(int rank, int signal) {
  if (WorldRank() == rank) kill(getpid(), signal);
}

std::string ReasonOf(const CheckpointManager& manager) {
  const auto reason = manager.ShouldStop();
  return reason ? reason->ToString() : "none";
}

class ManagerStopTest : public ManagerTest {
 protected:
  ManagerStopTest() { SetVariable("SLURM_JOB_ID", nullptr); }
  ~ManagerStopTest() override {
    SetVariable("SLURM_JOB_ID", nullptr);
    SetVariable("BELAY_JOB_END_TIME", nullptr);
  }

  static void SetVariable(const char* name, const char* value) {
    if (value == nullptr) {
      unsetenv(name);
    } else {
      setenv(name, value, 1);
    }
  }

  // From now on each save takes so long by the clock of rank 0.
  void SavesTake(double seconds) {
    program_.on_track = [this, seconds] { time_ += seconds; };
  }
};

// Only one rank gets it, and all answer the same at the next call.
TEST_F(ManagerStopTest, ASignalToOneRank) {
  for (int rank = 0; rank < WorldSize(); ++rank) {
    auto manager = Manage({.save_policy = {.save_interval_steps = 100},
                           .stop_signals = {SIGUSR1, SIGTERM}});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    const int64_t first = 1000 * rank;
    EXPECT_EQ(manager->ShouldSave(first).value(), true);
    EXPECT_EQ(SaveStep(*manager, first)->outcome, SaveOutcome::kSaved);
    EXPECT_EQ(manager->ShouldSave(first + 1).value(), false);
    SignalTo(rank, SIGTERM);
    EXPECT_EQ(manager->ShouldSave(first + 2).value(), false);
    EXPECT_EQ(ReasonOf(*manager), "none");
    EXPECT_EQ(manager->ShouldSave(first + 3).value(), true);
    EXPECT_EQ(ReasonOf(*manager), "SIGTERM on rank " + std::to_string(rank));
    const auto saved = SaveStep(*manager, first + 3);
    EXPECT_EQ(saved->outcome, SaveOutcome::kSaved) << saved->reason;
    EXPECT_EQ(manager->ShouldSave(first + 4).value(), false);
    EXPECT_EQ(manager->Save(first + 4)->outcome,
              SaveOutcome::kSkipped);  // the rules again
    EXPECT_EQ(ReasonOf(*manager), "SIGTERM on rank " + std::to_string(rank));
    EXPECT_EQ(OnDisk().back(), first + 3);
  }
}

TEST_F(ManagerStopTest, SignalsToAllRanks) {
  auto manager = Manage({.stop_signals = {SIGUSR1}});
  for (int times = 0; times < 3; ++times) kill(getpid(), SIGUSR1);
  EXPECT_TRUE(manager->ShouldSave(1).ok());
  EXPECT_EQ(manager->ShouldSave(2).value(), true);
  EXPECT_EQ(ReasonOf(*manager), "SIGUSR1 on rank 0");
  kill(getpid(), SIGUSR1);  // while it stops, another one is harmless
  EXPECT_EQ(SaveStep(*manager, 2)->outcome, SaveOutcome::kSaved);
}

// The step was saved already, by chance.
TEST_F(ManagerStopTest, TheLastSaveIsThereAlready) {
  auto manager = Manage({.stop_signals = {SIGUSR1}});
  EXPECT_TRUE(manager->ShouldSave(1).ok());
  SignalTo(WorldSize() - 1, SIGUSR1);
  EXPECT_TRUE(manager->ShouldSave(2).ok());
  EXPECT_EQ(SaveStep(*manager, 2)->outcome,
            SaveOutcome::kSaved);  // learns of the stop
  EXPECT_NE(ReasonOf(*manager), "none");
  EXPECT_EQ(manager->ShouldSave(2).value(), false);
  EXPECT_EQ(manager->ShouldSave(3).value(), false);
}

// A manager that reads only may be asked to stop, too.
TEST_F(ManagerStopTest, ReadOnly) {
  auto manager = Manage({.stop_signals = {SIGUSR2}, .read_only = true});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  SignalTo(0, SIGUSR2);
  EXPECT_EQ(manager->ShouldSave(1).value(), false);
  EXPECT_EQ(manager->ShouldSave(2).value(), false);
  EXPECT_EQ(ReasonOf(*manager), "SIGUSR2 on rank 0");
}

TEST_F(ManagerStopTest, AFailedLastSaveCanBeRepeated) {
  auto manager = Manage(
      {.save_policy = {.save_interval_steps = 10}, .stop_signals = {SIGUSR1}});
  SaveAll(*manager, 0, 1);
  SignalTo(0, SIGUSR1);
  EXPECT_EQ(manager->ShouldSave(1).value(), false);
  EXPECT_EQ(manager->ShouldSave(2).value(), true);
  program_.on_track = [] { fault::Arm(1); };
  EXPECT_FALSE(manager->Save(2).ok());
  fault::Disarm();
  program_.on_track = nullptr;
  EXPECT_EQ(manager->ShouldSave(2).value(), true);
  EXPECT_EQ(SaveStep(*manager, 2)->outcome, SaveOutcome::kSaved);
}

TEST_F(ManagerStopTest, TheTimeLimit) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 100},
                         .end_time = time_ + 100,
                         .final_save_margin = 20});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  Steps saved_at;
  int64_t step = 0;
  for (; !manager->ShouldStop(); ++step, time_ += 5) {
    ASSERT_LT(step, 100);
    if (manager->ShouldSave(step).value() &&
        SaveStep(*manager, step)->outcome == SaveOutcome::kSaved) {
      saved_at.push_back(step);
    }
  }
  // 20 s and two steps of 5 s before the end the ranks are told: after 70 s.
  EXPECT_EQ(ReasonOf(*manager), "the time limit in 30 s");
  EXPECT_THAT(saved_at, ElementsAre(0, 15));
  EXPECT_EQ(manager->Close(), absl::OkStatus());
  EXPECT_EQ(ReasonOf(*manager), "the time limit in 30 s");
}

TEST_F(ManagerStopTest, LongSavesAreBegunEarly) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 2},
                         .end_time = time_ + 1000,
                         .final_save_margin = 20});
  SavesTake(100);
  int64_t step = 0;
  for (; !manager->ShouldStop(); ++step, time_ += 5) {
    ASSERT_LT(step, 100);
    if (manager->ShouldSave(step).value()) {
      EXPECT_EQ(SaveStep(*manager, step)->outcome, SaveOutcome::kSaved);
    }
  }
  EXPECT_THAT(manager->notes(), ElementsAre());
  const double left = 2000 - time_;
  EXPECT_GE(left, 0);
  EXPECT_LE(left, 20 + 100 + 50 + 20);
}

TEST_F(ManagerStopTest, ALastSaveThatCannotFinishIsLeftOut) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 10},
                         .stop_signals = {SIGUSR1},
                         .end_time = time_ + 1000});
  SavesTake(60);
  EXPECT_EQ(SaveStep(*manager, 0)->outcome, SaveOutcome::kSaved);
  time_ += 895;  // 45 are left
  SignalTo(WorldSize() - 1, SIGUSR1);
  EXPECT_EQ(manager->ShouldSave(1).value(), false);
  EXPECT_EQ(manager->ShouldSave(2).value(), true);
  const auto saved = SaveStep(*manager, 2);
  EXPECT_EQ(saved->outcome, SaveOutcome::kSkipped);
  const std::string why =
      "the time limit comes before its end (need 60 s, found 45 s)";
  EXPECT_EQ(saved->reason, why);
  EXPECT_THAT(
      manager->notes(),
      ElementsAre("the last save before SIGUSR1 on rank " +
                  std::to_string(WorldSize() - 1) + " was left out: " + why));
  EXPECT_EQ(manager->ShouldSave(3).value(), false);
  EXPECT_EQ(OnDisk(), Steps({0}));
  // Who knows better may.
  EXPECT_EQ(SaveStep(*manager, 3, {.force = true})->outcome,
            SaveOutcome::kSaved);
}

TEST_F(ManagerStopTest, TheVariableSaysWhenItEnds) {
  time_ = static_cast<double>(time(nullptr));
  // Others may have another value, or none: rank 0's counts.
  if (WorldRank() == 0) {
    SetVariable("BELAY_JOB_END_TIME", std::to_string(time_ + 500).c_str());
  }
  auto manager = Manage({.stop_at_time_limit = true});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_TRUE(manager->ShouldSave(1).ok());
  time_ += 480;
  EXPECT_TRUE(manager->ShouldSave(2).ok());
  EXPECT_TRUE(manager->ShouldSave(3).ok());
  EXPECT_EQ(ReasonOf(*manager), "the time limit in 20 s");
  manager = absl::InternalError("ended");
  if (WorldRank() == 0) SetVariable("BELAY_JOB_END_TIME", "noon");
  EXPECT_EQ(SameError(Manage({.stop_at_time_limit = true}).status(),
                      absl::StatusCode::kInvalidArgument),
            "read BELAY_JOB_END_TIME: not a time (need seconds since 1970, "
            "found \"noon\")" +
                OfRank0());
}

// A squeue of the test's own tells that 10 seconds are left.
TEST_F(ManagerStopTest, SqueueSaysWhenItEnds) {
  const std::string path = getenv("PATH");
  OnRank0([&] {
    std::ofstream(scratch_.File("squeue"))
        << "#!/bin/sh\ntest \"$3\" = 42 && echo 0:10\n";
    fs::permissions(scratch_.File("squeue"), fs::perms::owner_all);
  });
  SetVariable("PATH", (scratch_.path() + ":" + path).c_str());
  SetVariable("SLURM_JOB_ID", "42");
  SetVariable("SLURM_JOB_NUM_NODES", "1");
  {
    auto manager = Manage({.stop_at_time_limit = true});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    for (int64_t step = 0; !manager->ShouldStop(); ++step) {
      EXPECT_TRUE(manager->ShouldSave(step).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_THAT(ReasonOf(*manager), HasSubstr("the time limit in "));
  }
  SetVariable("PATH", path.c_str());
  SetVariable("SLURM_JOB_NUM_NODES", nullptr);
}

// What is wrong with the variables, and with squeue, is noted on all ranks.
TEST_F(ManagerStopTest, NotesOnTheJob) {
  EXPECT_THAT(Manage({.stop_at_time_limit = true})->notes(),
              ElementsAre(HasSubstr("this is not a Slurm job")));
  SetVariable("SLURM_JOB_ID", "4x2");
  EXPECT_THAT(Manage({.stop_at_time_limit = true})->notes(),
              ElementsAre(HasSubstr("found \"4x2\""),
                          HasSubstr("this is not a Slurm job")));
}

TEST_F(ManagerStopTest, TheInterval) {
  SavesTake(6);
  auto manager = Manage(
      {.save_policy = {.auto_interval = AutoInterval{
                           .mtbf_seconds = 864000, .overhead_budget = 0.05}}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  // Daly's optimum for 6 s is sqrt(2 * 6 * 864000) and a little.
  std::vector<double> saved_at;
  const double start = time_;
  for (int64_t step = 0; step < 1000; ++step, time_ += 10) {
    if (!manager->ShouldSave(step).value()) continue;
    saved_at.push_back(time_ - start);
    EXPECT_EQ(SaveStep(*manager, step)->outcome, SaveOutcome::kSaved);
  }
  ASSERT_EQ(saved_at.size(), 4u);
  EXPECT_EQ(saved_at[0], 0);
  for (int i = 1; i < 4; ++i) {
    const double interval = saved_at[i] - saved_at[i - 1] - 6;
    EXPECT_GE(interval, 3216);
    EXPECT_LE(interval, 3216 + 30);  // the next but one step
  }
  EXPECT_THAT(manager->notes(),
              ElementsAre(HasSubstr("save every 3216 s: Daly's optimum for "
                                    "saves of 6 s and a failure every 864000 "
                                    "s")));
  const auto refused = manager->Save(1000);
  EXPECT_EQ(refused->outcome, SaveOutcome::kSkipped);
  EXPECT_THAT(refused->reason,
              HasSubstr("auto_interval: the next save is due"));
  // Much slower saves are told of.
  SavesTake(600);
  for (int64_t step = 1001; step < 1004; ++step) {
    EXPECT_EQ(SaveStep(*manager, step, {.force = true})->outcome,
              SaveOutcome::kSaved);
  }
  EXPECT_EQ(manager->notes().size(), 2u);
}

// After a restart the restore tells what saves may take.
TEST_F(ManagerStopTest, TheIntervalAfterARestore) {
  {
    auto manager = Manage();
    SaveAll(*manager, 0, 1);
  }
  program_.on_track = [this] { time_ += 30; };
  auto manager = Manage(
      {.save_policy = {.auto_interval = AutoInterval{.mtbf_seconds = 7200}}});
  EXPECT_EQ(manager->RestoreLatest()->step, 0);
  for (int64_t step = 1; step < 4; ++step, time_ += 10) {
    EXPECT_EQ(manager->ShouldSave(step).value(), false);
  }
  time_ += 30 / 0.035;
  EXPECT_EQ(manager->ShouldSave(4).value(), false);
  EXPECT_EQ(manager->ShouldSave(5).value(), true);
}

// Its answer is that of rank 0, for the step that is asked for.
TEST_F(ManagerStopTest, ShouldSaveOfRank0) {
  auto manager =
      Manage({.save_policy = {.should_save =
                                  [](int64_t step, std::optional<int64_t>) {
                                    if (step == 7) throw std::string("no");
                                    return WorldRank() == 0 && step % 3 == 1;
                                  }},
              .stop_signals = {SIGUSR1}});
  for (int64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(manager->ShouldSave(step).value(), step % 3 == 1) << step;
  }
  EXPECT_EQ(
      SameError(manager->ShouldSave(7).status(), absl::StatusCode::kInternal),
      "save \"" + Run() + "\": should_save: exception of a type without text" +
          OfRank0());
  SignalTo(0, SIGUSR1);
  EXPECT_EQ(manager->ShouldSave(8).value(), true);
  EXPECT_EQ(SaveStep(*manager, 8)->outcome, SaveOutcome::kSaved);
}

TEST_F(ManagerStopTest, RanksThatDisagreeOnTheStep) {
  if (WorldSize() == 1) return;
  auto manager = Manage({.save_policy = {.save_interval_steps = 100}});
  SaveAll(*manager, 0, 1);
  const int64_t mine = WorldRank() == 1 ? 2 : 1;
  EXPECT_EQ(manager->ShouldSave(mine).value(), false);
  const std::string message =
      "save: the step or step_counter at ShouldSave "
      "differs between ranks: rank 1 of " +
      std::to_string(WorldSize()) +
      " has another value than rank 0 [rank 1 of " +
      std::to_string(WorldSize()) + "]";
  EXPECT_EQ(SameError(manager->ShouldSave(3).status(),
                      absl::StatusCode::kInvalidArgument),
            message);
  EXPECT_EQ(manager->ShouldSave(4).value(), false);
  // The same where some ranks save by now and others do not.
  EXPECT_TRUE(manager->ShouldSave(WorldRank() == 1 ? 100 : 5).ok());
  EXPECT_EQ(SameError(WorldRank() == 1 ? manager->Save(100).status()
                                       : manager->ShouldSave(6).status(),
                      absl::StatusCode::kInvalidArgument),
            message);
}

TEST_F(ManagerStopTest, AFaultOnOneRankIsToldToAll) {
  auto manager = Manage();
  SaveAll(*manager, 0, 1);
  for (int rank = 0; rank < WorldSize(); ++rank) {
    if (WorldRank() == rank) fault::Arm(1);
    EXPECT_EQ(manager->ShouldSave(1).status(), absl::OkStatus());
    fault::Disarm();
    EXPECT_EQ(
        SameError(manager->ShouldSave(1).status(), absl::StatusCode::kInternal),
        "vote: injected fault [rank " + std::to_string(rank) + " of " +
            std::to_string(WorldSize()) + "]");
    EXPECT_EQ(manager->ShouldSave(1).status(), absl::OkStatus());
  }
}

TEST_F(ManagerStopTest, AClockThatThrows) {
  ManagerOptions options{
      .save_policy = {.auto_interval = AutoInterval{.mtbf_seconds = 3600}}};
  bool throws = false;
  options.clock = [&]() -> double {
    if (throws) throw std::string("late");
    return 1000;
  };
  auto manager =
      CheckpointManager::Create(program_.checkpoint(), Run(), options);
  SaveAll(*manager, 0, 1);
  throws = true;
  EXPECT_EQ(manager->ShouldSave(1).status(), absl::OkStatus());
  EXPECT_EQ(
      SameError(manager->ShouldSave(1).status(), absl::StatusCode::kInternal),
      "ask the clock: exception of a type without text" + OfRank0());
}

TEST_F(ManagerStopTest, BadSignals) {
  EXPECT_THAT(SameError(Manage({.stop_signals = {SIGKILL}}).status(),
                        absl::StatusCode::kInvalidArgument),
              HasSubstr("stop_signals: SIGKILL cannot be caught"));
  if (WorldSize() == 1) return;
  EXPECT_THAT(
      SameError(Manage({.stop_signals = {WorldRank() == 0 ? SIGUSR1 : SIGUSR2}})
                    .status(),
                absl::StatusCode::kInvalidArgument),
      HasSubstr("manage: the option stop_signals differs between ranks"));
}

}  // namespace
}  // namespace belay
