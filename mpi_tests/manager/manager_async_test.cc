// A manager that saves in the background.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "manager_testing.h"

namespace belay::testing::manager_async_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Some hundred milliseconds for what a rank writes.
constexpr AsyncOptions kSlow{.max_bytes_per_second = 40000};

class ManagerAsyncTest : public ManagerTest {
 protected:
  // Begins to save a step whose values are its number, and changes them.
  StatusOr<ManagedSave> BeginStep(CheckpointManager& manager, int64_t step,
                                  const ManagedSaveOptions& options = {}) {
    StatusOr<ManagedSave> result = SaveStep(manager, step, options);
    program_.Set(-1);
    return result;
  }

  // Calls ShouldSave until the save under way counts. Returns whether it does.
  bool PollUntil(CheckpointManager& manager, int64_t step) {
    for (int i = 0; i < 2000; ++i) {
      EXPECT_EQ(manager.ShouldSave(step).status(), absl::OkStatus());
      if (manager.LatestStep() == step) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
};

TEST_F(ManagerAsyncTest, StepsCountOnceTheyAreCommitted) {
  auto manager =
      Manage({.async = AsyncOptions(), .retention = {.max_to_keep = 2}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  for (int64_t step = 1; step <= 5; ++step) {
    const auto result = BeginStep(*manager, step);
    ASSERT_EQ(result.status(), absl::OkStatus());
    EXPECT_EQ(result->outcome, SaveOutcome::kBegun);
    EXPECT_THAT(result->ToString(), HasSubstr("in the background"));
    EXPECT_NE(manager->LatestStep(), step);
    ASSERT_EQ(result->finished.has_value(), step > 1);
    if (step > 1) {
      EXPECT_EQ(result->finished->step, step - 1);
      EXPECT_EQ(manager->LatestStep(), step - 1);
    }
    EXPECT_THAT(result->deleted, step > 3 ? Steps{step - 3} : Steps{});
  }
  const auto last = manager->Wait();
  ASSERT_EQ(last.status(), absl::OkStatus());
  ASSERT_TRUE(last->has_value());
  EXPECT_EQ((*last)->outcome, SaveOutcome::kSaved);
  EXPECT_EQ((*last)->result.step, 5);
  EXPECT_EQ(OnDisk(), Steps({4, 5}));
  EXPECT_EQ(manager->Steps(), Steps({4, 5}));
  EXPECT_FALSE(manager->Wait()->has_value());
  EXPECT_EQ(*manager->RestoreLatest()->step, 5);
  EXPECT_TRUE(program_.Is(5));
}

TEST_F(ManagerAsyncTest, ShouldSaveNoticesTheEnd) {
  auto manager =
      Manage({.save_policy = {.save_interval_steps = 10}, .async = kSlow});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_TRUE(manager->ShouldSave(10).value());
  ASSERT_EQ(BeginStep(*manager, 10)->outcome, SaveOutcome::kBegun);
  EXPECT_THAT(OnDisk(), IsEmpty());
  // The rules do not ask for it again, though it does not count yet.
  EXPECT_FALSE(manager->ShouldSave(10).value());
  const auto again = manager->Save(11);
  ASSERT_EQ(again.status(), absl::OkStatus());
  EXPECT_EQ(again->outcome, SaveOutcome::kSkipped);
  EXPECT_TRUE(PollUntil(*manager, 10));
  EXPECT_EQ(OnDisk(), Steps({10}));
  EXPECT_EQ(manager->Save(11)->finished->step, 10);
  EXPECT_EQ(*manager->RestoreLatest()->step, 10);
  EXPECT_TRUE(program_.Is(10));
}

TEST_F(ManagerAsyncTest, SaveAloneNoticesTheEndAsWell) {
  auto manager =
      Manage({.save_policy = {.save_interval_steps = 100}, .async = kSlow});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  ASSERT_EQ(BeginStep(*manager, 100)->outcome, SaveOutcome::kBegun);
  int64_t step = 101;
  std::optional<SaveResult> finished;
  for (; !finished && step < 199; ++step) {
    const auto saved = BeginStep(*manager, step);
    ASSERT_EQ(saved.status(), absl::OkStatus());
    finished = saved->finished;
    // Both ways of asking may go together.
    if (step % 3 == 0) {
      EXPECT_FALSE(manager->ShouldSave(step).value());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->step, 100);
  EXPECT_EQ(manager->Steps(), Steps({100}));
  for (const int64_t next : {200, 300, 400}) {
    ASSERT_EQ(BeginStep(*manager, next)->outcome, SaveOutcome::kBegun);
    EXPECT_FALSE(manager->ShouldSave(next).value());
    EXPECT_EQ(manager->Save(next + 1).status(), absl::OkStatus());
  }
  EXPECT_EQ(*manager->RestoreLatest()->step, 400);
  EXPECT_TRUE(program_.Is(400));
}

TEST_F(ManagerAsyncTest, ARestoreWaits) {
  auto manager = Manage({.async = kSlow});
  ASSERT_EQ(BeginStep(*manager, 3)->outcome, SaveOutcome::kBegun);
  EXPECT_EQ(*manager->RestoreLatest()->step, 3);
  EXPECT_TRUE(program_.Is(3));
  ASSERT_EQ(BeginStep(*manager, 4)->outcome, SaveOutcome::kBegun);
  EXPECT_EQ(manager->Delete(3), absl::OkStatus());
  EXPECT_EQ(manager->Steps(), Steps({4}));
  ASSERT_EQ(BeginStep(*manager, 5)->outcome, SaveOutcome::kBegun);
  EXPECT_EQ(manager->Reload(), absl::OkStatus());
  EXPECT_EQ(manager->Steps(), Steps({4, 5}));
}

TEST_F(ManagerAsyncTest, AForcedSaveIsComplete) {
  auto manager =
      Manage({.save_policy = {.save_interval_steps = 10}, .async = kSlow});
  ASSERT_EQ(BeginStep(*manager, 10)->outcome, SaveOutcome::kBegun);
  const auto forced = BeginStep(*manager, 11, {.force = true});
  ASSERT_EQ(forced.status(), absl::OkStatus());
  EXPECT_EQ(forced->outcome, SaveOutcome::kSaved);
  EXPECT_EQ(forced->finished->step, 10);
  EXPECT_EQ(OnDisk(), Steps({10, 11}));
}

// The newest state is on disk before the job ends. A batch system sends SIGTERM
// where a job is preempted.
class ManagerAsyncSignalTest : public ManagerAsyncTest,
                               public ::testing::WithParamInterface<int> {};

TEST_P(ManagerAsyncSignalTest, TheLastSaveWaitsAndIsComplete) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 10},
                         .async = kSlow,
                         .stop_signals = {GetParam()}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_TRUE(manager->ShouldSave(10).value());
  ASSERT_EQ(BeginStep(*manager, 10)->outcome, SaveOutcome::kBegun);
  EXPECT_THAT(OnDisk(), IsEmpty());
  if (WorldRank() == WorldSize() - 1) kill(getpid(), GetParam());
  int64_t step = 11;
  while (!manager->ShouldSave(step).value()) ++step;
  EXPECT_LE(step, 13);
  const auto last = BeginStep(*manager, step);
  ASSERT_EQ(last.status(), absl::OkStatus());
  EXPECT_EQ(last->outcome, SaveOutcome::kSaved);
  EXPECT_TRUE(manager->ShouldStop().has_value());
  EXPECT_EQ(OnDisk(), Steps({10, step}));
  manager = absl::CancelledError("ended");  // gives the lease back
  manager = Manage();
  EXPECT_EQ(*manager->RestoreLatest()->step, step);
  EXPECT_TRUE(program_.Is(step));
}

INSTANTIATE_TEST_SUITE_P(Signals, ManagerAsyncSignalTest,
                         ::testing::Values(SIGUSR1, SIGTERM));

TEST_F(ManagerAsyncTest, TheTimeLimitComesWhileAStepIsWritten) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 100},
                         .async = kSlow,
                         .end_time = time_ + 100,
                         .final_save_margin = 20});
  time_ += 78;
  ASSERT_EQ(BeginStep(*manager, 0)->outcome, SaveOutcome::kBegun);
  time_ += 5;  // that it takes
  int64_t step = 1;
  while (!manager->ShouldSave(step).value()) ++step;
  EXPECT_THAT(OnDisk(), IsEmpty());
  ASSERT_TRUE(manager->ShouldStop().has_value());
  EXPECT_EQ(manager->ShouldStop()->ToString(), "the time limit in 17 s");
  const auto last = BeginStep(*manager, step);
  ASSERT_EQ(last.status(), absl::OkStatus());
  EXPECT_EQ(last->outcome, SaveOutcome::kSaved);
  EXPECT_EQ(last->finished->step, 0);
  EXPECT_EQ(OnDisk(), Steps({0, step}));
  EXPECT_EQ(*manager->RestoreLatest()->step, step);
  EXPECT_TRUE(program_.Is(step));
}

TEST_F(ManagerAsyncTest, TheThreadMayCopyTheValues) {
  auto manager =
      Manage({.async = AsyncOptions{.snapshot = SnapshotMode::kLazy}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  for (int64_t step = 1; step <= 3; ++step) {
    ASSERT_EQ(SaveStep(*manager, step)->outcome, SaveOutcome::kBegun);
    for (int i = 0; i < 5; ++i) Ok(manager->ShouldSave(step));
    EXPECT_THAT(OnDisk(), ::testing::Not(::testing::Contains(step)));
    EXPECT_EQ(manager->WaitForSnapshot(), absl::OkStatus());
    program_.Set(-1);
    EXPECT_TRUE(PollUntil(*manager, step));
  }
  ASSERT_EQ(SaveStep(*manager, 4)->outcome, SaveOutcome::kBegun);
  const Status status = SaveStep(*manager, 5).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(OnDisk(), Steps({1, 2, 3}));
  EXPECT_EQ(manager->WaitForSnapshot(), absl::OkStatus());
  EXPECT_EQ(*manager->RestoreLatest()->step, 3);
  EXPECT_TRUE(program_.Is(3));
}

TEST_F(ManagerAsyncTest, AFailureIsAnErrorOfALaterCall) {
  auto manager = Manage({.async = AsyncOptions()});
  ASSERT_EQ(BeginStep(*manager, 1)->outcome, SaveOutcome::kBegun);
  ManagedSaveOptions refused{.save = SaveOptions()};
  refused.save->durable = false;
  refused.save->before_commit = [](const std::string&, int64_t) {
    return absl::AbortedError("not this one");
  };
  ASSERT_EQ(BeginStep(*manager, 2, refused)->outcome, SaveOutcome::kBegun);
  EXPECT_THAT(SameError(manager->Wait().status(), absl::StatusCode::kAborted),
              HasSubstr("not this one"));
  EXPECT_EQ(OnDisk(), Steps({1}));
  EXPECT_EQ(manager->Steps(), Steps({1}));
  ASSERT_EQ(BeginStep(*manager, 2)->outcome, SaveOutcome::kBegun);
  EXPECT_EQ(manager->Wait().status(), absl::OkStatus());
  EXPECT_EQ(OnDisk(), Steps({1, 2}));
  // What a restore does not depend on is a note.
  ASSERT_EQ(BeginStep(*manager, 3, refused)->outcome, SaveOutcome::kBegun);
  EXPECT_EQ(*manager->RestoreLatest()->step, 2);
  EXPECT_THAT(manager->notes().back(), HasSubstr("not this one"));
}

TEST_F(ManagerAsyncTest, AManagerThatEndsGivesUpTheStep) {
  {
    auto manager = Manage({.async = AsyncOptions{.max_bytes_per_second = 1}});
    ASSERT_EQ(BeginStep(*manager, 1)->outcome, SaveOutcome::kBegun);
  }
  auto manager = Manage({.async = AsyncOptions()});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_THAT(manager->Steps(), IsEmpty());
  ASSERT_EQ(BeginStep(*manager, 1)->outcome, SaveOutcome::kBegun);
  EXPECT_EQ(manager->Wait().status(), absl::OkStatus());
  EXPECT_EQ(OnDisk(), Steps({1}));
}

// The last lines of docs/restart.md, whatever the rules have saved before.
TEST_F(ManagerAsyncTest, AForcedSaveOfTheStepUnderWayWaitsForIt) {
  for (const SnapshotMode mode : {SnapshotMode::kInCall, SnapshotMode::kLazy}) {
    SCOPED_TRACE(static_cast<int>(mode));
    AsyncOptions async = kSlow;
    async.snapshot = mode;
    auto manager = Manage({.async = async});
    const int64_t step = 20 + static_cast<int64_t>(mode);
    program_.Set(step);
    ASSERT_EQ(manager->Save(step)->outcome, SaveOutcome::kBegun);
    EXPECT_NE(manager->LatestStep(), step);
    ASSERT_EQ(manager->WaitForSnapshot(), absl::OkStatus());
    const auto last = manager->Save(step, {.force = true});
    ASSERT_EQ(last.status(), absl::OkStatus());
    EXPECT_EQ(last->outcome, SaveOutcome::kSaved);
    EXPECT_EQ(last->result.step, step);
    EXPECT_EQ(last->finished->step, step);
    EXPECT_THAT(last->notes, Contains(HasSubstr("this call took no new ones")));
    EXPECT_EQ(manager->LatestStep(), step);
    // And once it is committed.
    const auto again = manager->Save(step, {.force = true});
    ASSERT_EQ(again.status(), absl::OkStatus());
    EXPECT_EQ(again->outcome, SaveOutcome::kSaved);
    EXPECT_EQ(again->result.path, last->result.path);
    EXPECT_FALSE(again->finished.has_value());
    program_.Set(-1);
    EXPECT_EQ(*manager->RestoreLatest()->step, step);
    EXPECT_TRUE(program_.Is(step));
    // It may have other values now.
    EXPECT_EQ(manager->Save(step, {.force = true}).status().code(),
              absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(SaveStep(*manager, step,
                       {.force = true, .save = SaveOptions{.overwrite = true}})
                  ->outcome,
              SaveOutcome::kSaved);
  }
}

// Its values may have changed while they were copied.
TEST_F(ManagerAsyncTest, AForcedSaveOfAStepThatNobodyHasWaitedForSavesItAgain) {
  auto manager = Manage({.async = AsyncOptions{.snapshot = SnapshotMode::kLazy},
                         .stop_signals = {SIGUSR1}});
  for (const bool is_last : {false, true}) {
    SCOPED_TRACE(is_last);
    const int64_t step = is_last ? 7 : 6;
    ASSERT_EQ(BeginStep(*manager, step)->outcome, SaveOutcome::kBegun);
    for (int i = 0; i < 5; ++i) Ok(manager->ShouldSave(step));
    if (is_last) {
      if (WorldRank() == 0) kill(getpid(), SIGUSR1);
      while (!manager->ShouldStop()) Ok(manager->ShouldSave(step));
    }
    program_.Set(step + 10);
    const auto last = manager->Save(step, {.force = !is_last});
    ASSERT_EQ(last.status(), absl::OkStatus());
    EXPECT_EQ(last->outcome, SaveOutcome::kSaved);
    EXPECT_EQ(last->result.step, step);
    EXPECT_FALSE(last->finished.has_value());
    EXPECT_THAT(manager->notes(), ::testing::Contains(HasSubstr(absl::StrCat(
                                      "step ", step, " is saved again"))));
    EXPECT_EQ(manager->LatestStep(), step);
    program_.Set(-1);
    EXPECT_EQ(*manager->RestoreLatest()->step, step);
    EXPECT_TRUE(program_.Is(step + 10));
  }
}

TEST_F(ManagerAsyncTest, SoDoesTheLastSaveBeforeAStop) {
  auto manager = Manage({.async = kSlow, .stop_signals = {SIGUSR1}});
  program_.Set(5);
  ASSERT_EQ(manager->Save(5)->outcome, SaveOutcome::kBegun);
  EXPECT_FALSE(manager->ShouldSave(5).value());
  if (WorldRank() == 0) kill(getpid(), SIGUSR1);
  while (!manager->ShouldStop()) {
    ASSERT_EQ(manager->ShouldSave(5).status(), absl::OkStatus());
  }
  const auto last = manager->Save(5);
  ASSERT_EQ(last.status(), absl::OkStatus());
  EXPECT_EQ(last->outcome, SaveOutcome::kSaved);
  for (const std::string& note : manager->notes()) {
    EXPECT_THAT(note, ::testing::Not(HasSubstr("left out")));
  }
  EXPECT_EQ(OnDisk(), Steps({5}));
}

TEST_F(ManagerAsyncTest, ARuleNamesTheStepUnderWay) {
  auto manager = Manage({.async = kSlow});
  ASSERT_EQ(BeginStep(*manager, 5)->outcome, SaveOutcome::kBegun);
  const auto again = manager->Save(5);
  ASSERT_EQ(again.status(), absl::OkStatus());
  EXPECT_EQ(again->reason, "step 5 is being saved in the background");
  ASSERT_EQ(manager->Wait().status(), absl::OkStatus());
  EXPECT_THAT(manager->Save(5)->reason,
              HasSubstr("step 5 is not after the latest step 5"));
}

// Somebody has deleted it by hand: it is saved again.
TEST_F(ManagerAsyncTest, AForcedSaveLooksWhetherTheStepIsThere) {
  auto manager = Manage({.async = AsyncOptions()});
  ASSERT_EQ(BeginStep(*manager, 5)->outcome, SaveOutcome::kBegun);
  ASSERT_EQ(manager->Wait().status(), absl::OkStatus());
  MPI_Barrier(MPI_COMM_WORLD);
  if (WorldRank() == 0) std::filesystem::remove_all(manager->StepPath(5));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(SaveStep(*manager, 5, {.force = true})->outcome,
            SaveOutcome::kSaved);
  EXPECT_EQ(OnDisk(), Steps({5}));
}

// Its thread works after the call that began it.
TEST_F(ManagerAsyncTest, WhatTheCleanupMeetsIsANoteOfTheNextSave) {
  namespace fs = std::filesystem;
  auto manager = Manage({.async = AsyncOptions()});
  ASSERT_EQ(BeginStep(*manager, 1)->outcome, SaveOutcome::kBegun);
  const fs::path state = fs::path(Run()) / "step.manager.json";
  const fs::path aside = fs::path(Run()) / "aside";
  if (program_.comm().rank() == 0) {  // no file takes the place of a directory
    fs::rename(state, aside);
    fs::create_directory(state);
  }
  ASSERT_EQ((*manager->Wait())->outcome, SaveOutcome::kSaved);
  if (program_.comm().rank() == 0) {
    fs::remove(state);
    fs::rename(aside, state);
  }
  const auto next = SaveStep(*manager, 2, {.force = true});
  ASSERT_EQ(next.status(), absl::OkStatus());
  EXPECT_THAT(next->notes, Contains(HasSubstr("step.manager.json")));
  EXPECT_THAT(SaveStep(*manager, 3, {.force = true})->notes, IsEmpty());
}

TEST_F(ManagerAsyncTest, AStateIsSavedAlike) {
  auto manager = CheckpointManager::Create(
      program_.comm(), program_.state(), Run(),
      {.async = AsyncOptions(), .retention = {.max_to_keep = 2}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  for (int64_t step = 1; step <= 4; ++step) {
    program_.Set(step);
    ASSERT_EQ(manager->Save()->outcome, SaveOutcome::kBegun);
  }
  EXPECT_EQ((*manager->Wait())->result.step, 4);
  EXPECT_EQ(OnDisk(), Steps({3, 4}));
  program_.Set(0);
  EXPECT_EQ(*manager->Restore(3)->step, 3);
  EXPECT_TRUE(program_.Is(3));
}

TEST_F(ManagerAsyncTest, ASaveInTheForegroundSaysWhy) {
  auto manager = Manage(
      {.async = AsyncOptions(), .save = {.transfer = Transfer::kTwoPhase}});
  const auto saved = BeginStep(*manager, 1);
  ASSERT_EQ(saved.status(), absl::OkStatus());
  EXPECT_EQ(saved->outcome, SaveOutcome::kSaved);
  EXPECT_THAT(saved->notes, ElementsAre(HasSubstr("in the foreground")));
}

TEST_F(ManagerAsyncTest, OptionsHaveARange) {
  const auto manager = Manage({.async = AsyncOptions{.max_staging_bytes = -1}});
  EXPECT_THAT(SameError(manager.status(), absl::StatusCode::kInvalidArgument),
              HasSubstr("max_staging_bytes"));
}

}  // namespace
}  // namespace belay::testing::manager_async_test
