// The behaviour of tf.train.CheckpointManager.

#include "belay/checkpoint_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "manager_testing.h"

namespace belay::checkpoint_manager_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ManagerTest;
using testing::OnRank0;
using testing::Program;
using testing::Steps;

class CheckpointManagerTest : public ManagerTest {};

TEST_F(CheckpointManagerTest, Deletion) {
  auto manager = Manage({.retention = {.max_to_keep = 3}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  for (int64_t step = 1; step <= 3; ++step) EXPECT_EQ(SaveNext(*manager), step);
  EXPECT_EQ(OnDisk(), Steps({1, 2, 3}));
  const auto fourth = manager->Save();
  ASSERT_EQ(fourth.status(), absl::OkStatus());
  EXPECT_THAT(fourth->deleted, ElementsAre(1));
  EXPECT_THAT(fourth->notes, ElementsAre());
  EXPECT_EQ(OnDisk(), Steps({2, 3, 4}));
  EXPECT_EQ(manager->Steps(), Steps({2, 3, 4}));
  EXPECT_EQ(manager->LatestStep(), 4);
}

TEST_F(CheckpointManagerTest, KeepAll) {
  std::optional<CheckpointManager> manager = *Manage();
  for (int64_t step = 1; step <= 4; ++step) EXPECT_EQ(SaveNext(*manager), step);
  EXPECT_EQ(Active(*manager), Steps({1, 2, 3, 4}));
  manager.reset();
  manager = *Manage({.retention = {.max_to_keep = 3}});
  EXPECT_EQ(Active(*manager), Steps({1, 2, 3, 4}));
  EXPECT_EQ(OnDisk(), Steps({1, 2, 3, 4}));
  EXPECT_EQ(SaveNext(*manager), 5);
  EXPECT_EQ(OnDisk(), Steps({3, 4, 5}));
}

TEST_F(CheckpointManagerTest, SaveRestoreState) {
  time_ = 3;
  std::optional<CheckpointManager> manager =
      *Manage({.retention = {.max_to_keep = 2}});
  time_ = 10000;
  SaveNext(*manager);
  time_ += 3610;
  SaveNext(*manager);
  EXPECT_EQ(Active(*manager), Steps({1, 2}));
  const ManagerOptions hours{
      .retention = {.max_to_keep = 2, .keep_checkpoint_every_n_hours = 1.5}};
  manager.reset();
  manager = *Manage(hours);
  EXPECT_EQ(Active(*manager), Steps({1, 2}));
  EXPECT_EQ(manager->LatestStep(), 2);
  for (const double now : {14330, 16130, 17930}) {
    time_ = now;
    SaveNext(*manager);
  }
  EXPECT_EQ(OnDisk(), Steps({1, 4, 5}));
  EXPECT_EQ(Active(*manager), Steps({4, 5}));
  manager.reset();
  manager = *Manage(hours);
  EXPECT_EQ(manager->LatestStep(), 5);
  time_ = 17940;
  SaveNext(*manager);
  EXPECT_EQ(Active(*manager), Steps({5, 6}));
  EXPECT_EQ(OnDisk(), Steps({1, 4, 5, 6}));
  EXPECT_THAT(Content("step.manager.json"),
              HasSubstr("\"last_preserved\": 16130.0"));
}

TEST_F(CheckpointManagerTest, ContinueFromUnmanaged) {
  OnRank0([&] { fs::create_directory(Run()); });
  for (int64_t step = 1; step <= 2; ++step) {
    program_.Set(step);
    ASSERT_EQ(program_.checkpoint().Save(Run()).status(), absl::OkStatus());
  }
  Program later;
  auto manager = CheckpointManager::Create(later.checkpoint(), Run(),
                                           {.retention = {.max_to_keep = 2}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_THAT(manager->notes(),
              ElementsAre("2 of the steps were saved by no manager; they are "
                          "never deleted"));
  ASSERT_EQ(manager->RestoreLatest().status(), absl::OkStatus());
  EXPECT_TRUE(later.Is(2));
  EXPECT_EQ(later.checkpoint().save_counter(), 2);
  EXPECT_EQ(SaveNext(*manager), 3);
  EXPECT_EQ(Active(*manager), Steps({3}));
  EXPECT_EQ(SaveNext(*manager), 4);
  EXPECT_EQ(SaveNext(*manager), 5);
  EXPECT_EQ(Active(*manager), Steps({4, 5}));
  EXPECT_EQ(OnDisk(), Steps({1, 2, 4, 5}));
}

TEST_F(CheckpointManagerTest, ClockReset) {
  const ManagerOptions options{
      .retention = {.max_to_keep = 1, .keep_checkpoint_every_n_hours = 1}};
  time_ = 10000;
  std::optional<CheckpointManager> manager = *Manage(options);
  for (int save = 0; save < 3; ++save) {
    SaveNext(*manager);
    time_ += 3600;
  }
  EXPECT_EQ(OnDisk(), Steps({2, 3}));
  EXPECT_EQ(Active(*manager), Steps({3}));
  time_ = 5000;
  manager.reset();
  manager = *Manage({.retention = {.max_to_keep = 1}});
  EXPECT_THAT(manager->notes(),
              ElementsAre(HasSubstr("the clock is behind the last preserved "
                                    "step")));
  EXPECT_EQ(manager->LatestStep(), 3);
  EXPECT_EQ(Active(*manager), Steps());
  time_ += 10;
  SaveNext(*manager);
  EXPECT_EQ(OnDisk(), Steps({2, 3, 4}));
  time_ += 10;
  SaveNext(*manager);
  EXPECT_EQ(OnDisk(), Steps({2, 3, 5}));
  EXPECT_EQ(Active(*manager), Steps({5}));
}

TEST_F(CheckpointManagerTest, CustomNumbering) {
  auto manager = Manage({.retention = {.max_to_keep = 2}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  for (int64_t i = 0; i < 5; ++i) {
    const auto saved = SaveStep(*manager, 2 * i);
    ASSERT_EQ(saved.status(), absl::OkStatus());
    EXPECT_EQ(saved->result.path, StepDir(2 * i));
  }
  EXPECT_EQ(program_.checkpoint().save_counter(), 5);
  EXPECT_EQ(SaveStep(*manager, 32)->result.path, StepDir(32));
  EXPECT_EQ(manager->LatestStep(), 32);
  EXPECT_EQ(OnDisk(), Steps({8, 32}));
  // Never back to numbers that were passed.
  EXPECT_EQ(SaveNext(*manager), 33);
}

TEST_F(CheckpointManagerTest, CustomCheckpointPrefix) {
  auto manager = Manage({.prefix = "ck=pt", .retention = {.max_to_keep = 1}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  SaveNext(*manager);
  const auto second = manager->Save();
  ASSERT_EQ(second.status(), absl::OkStatus());
  EXPECT_EQ(second->result.path, Run() + "/ck=pt_00000002");
  EXPECT_EQ(manager->StepPath(2), second->result.path);
  EXPECT_EQ(ListSteps(Run(), "ck=pt").value(), Steps({2}));
  EXPECT_EQ(OnDisk(), Steps());
  EXPECT_NE(Content("ck=pt.manager.json"), "");
  // Another prefix is another series, also for a manager at the same time.
  auto other = Manage();
  ASSERT_EQ(other.status(), absl::OkStatus());
  EXPECT_EQ(other->Steps(), Steps());
  SaveNext(*other);
  EXPECT_EQ(ListSteps(Run(), "ck=pt").value(), Steps({2}));
}

TEST_F(CheckpointManagerTest, RestoreOrInitialize) {
  int calls = 0;
  const ManagerOptions options{.init_fn = [&] {
    ++calls;
    program_.Set(7);
    return absl::OkStatus();
  }};
  std::optional<CheckpointManager> manager = *Manage(options);
  const auto first = manager->RestoreOrInitialize();
  ASSERT_EQ(first.status(), absl::OkStatus());
  EXPECT_EQ(first->step, std::nullopt);
  EXPECT_EQ(first->load_status.kind(), LoadStatus::Kind::kInitializationOnly);
  EXPECT_EQ(first->ToString(), "restored nothing");
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(program_.Is(7));
  SaveNext(*manager);
  program_.Set(0);
  manager.reset();
  manager = *Manage(options);
  const auto second = manager->RestoreOrInitialize();
  ASSERT_EQ(second.status(), absl::OkStatus());
  EXPECT_EQ(second->step, 1);
  EXPECT_EQ(second->ToString(), "restored step 1");
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(program_.Is(7));
}

// What was renamed would begin anew, and nobody would know.
TEST_F(CheckpointManagerTest, ARenamedValueIsAnErrorUnlessItIsAllowed) {
  double learning_rate = 0.5;
  const auto as_value = [&](Tracker& tracker) {
    tracker.Value("learning_rate", learning_rate);
  };
  const auto renamed = [&](Tracker& tracker) {
    tracker.Value("learnin_rate", learning_rate);
  };
  {
    Checkpoint saved(program_.checkpoint().comm(), {{"adam", as_value}});
    auto manager = CheckpointManager::Create(saved, Run());
    ASSERT_EQ(manager.status(), absl::OkStatus());
    ASSERT_EQ(manager->Save(1).status(), absl::OkStatus());
  }
  learning_rate = 0.25;
  const auto restore = [&](ObjectRef adam, RestoreMatch match) {
    Checkpoint other(program_.checkpoint().comm(), {{"adam", std::move(adam)}});
    auto manager = CheckpointManager::Create(
        other, Run(), {.read_only = true, .restore_match = match});
    EXPECT_EQ(manager.status(), absl::OkStatus());
    return manager->RestoreOrInitialize().status();
  };
  const Status status = restore(renamed, RestoreMatch::kExistingObjects);
  EXPECT_THAT(SameError(status, absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("\"adam/.ATTRIBUTES/learnin_rate\""),
                    HasSubstr("stored and not used: "
                              "\"adam/.ATTRIBUTES/learning_rate\" is close to "
                              "\"adam/learnin_rate\""),
                    HasSubstr("restore_match")));
  EXPECT_EQ(learning_rate, 0.25);
  // A value that became an object has another key, and the same name.
  const auto as_child = [&](Tracker& tracker) {
    tracker.Child("learning_rate", learning_rate);
  };
  EXPECT_THAT(
      std::string(restore(as_child, RestoreMatch::kExistingObjects).message()),
      HasSubstr("\"adam/.ATTRIBUTES/learning_rate\" is close to "
                "\"adam/learning_rate\""));
  EXPECT_EQ(restore(renamed, RestoreMatch::kAnything), absl::OkStatus());
  // The object that holds it is there.
  EXPECT_EQ(restore(renamed, RestoreMatch::kNontrivial), absl::OkStatus());
  EXPECT_EQ(restore(as_value, RestoreMatch::kConsumed), absl::OkStatus());
  EXPECT_EQ(learning_rate, 0.5);
}

TEST_F(CheckpointManagerTest, CheckpointInterval) {
  int64_t counter = 0;
  auto manager = Manage(
      {.save_policy = {.step_counter = &counter, .checkpoint_interval = 2}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  Steps saved_at;
  for (; counter < 3; ++counter) {
    if (manager->Save()->outcome == SaveOutcome::kSaved) {
      saved_at.push_back(counter);
    }
  }
  EXPECT_THAT(saved_at, ElementsAre(0, 2));
  counter = 2;
  EXPECT_EQ(manager->Save()->outcome, SaveOutcome::kSkipped);
  EXPECT_EQ(manager->Save({}, {.force = true})->outcome, SaveOutcome::kSkipped);
  counter = 3;
  EXPECT_EQ(manager->Save()->reason,
            "step_counter has not grown by checkpoint_interval (need 2, found "
            "1)");
  EXPECT_EQ(manager->ShouldSave().value(), false);
  EXPECT_EQ(manager->Save({}, {.force = true})->outcome, SaveOutcome::kSaved);
  EXPECT_EQ(OnDisk(), Steps({1, 2, 3}));
  EXPECT_EQ(program_.checkpoint().save_counter(), 3);
}

TEST_F(CheckpointManagerTest, CheckpointIntervalWithRestore) {
  int64_t counter = 0;
  const ManagerOptions options{
      .save_policy = {.step_counter = &counter, .checkpoint_interval = 1}};
  std::optional<CheckpointManager> manager = *Manage(options);
  counter = 5;
  EXPECT_EQ(manager->Save()->outcome, SaveOutcome::kSaved);
  manager.reset();
  manager = *Manage(options);
  ASSERT_EQ(manager->RestoreOrInitialize()->step, 1);
  EXPECT_EQ(manager->Save()->reason, "step_counter is still 5");
  counter = 6;
  EXPECT_EQ(manager->Save()->outcome, SaveOutcome::kSaved);
}

// The first step that was saved or restored counts, wherever it was.
TEST_F(CheckpointManagerTest, CheckpointIntervalWithLastCheckpointStep) {
  int64_t counter = 1;
  const ManagerOptions options{
      .save_policy = {.step_counter = &counter, .checkpoint_interval = 2}};
  std::optional<CheckpointManager> manager = *Manage(options);
  EXPECT_EQ(manager->Save()->outcome, SaveOutcome::kSaved);
  manager.reset();
  manager = *Manage(options);
  ASSERT_EQ(manager->RestoreOrInitialize().status(), absl::OkStatus());
  Steps saved_at;
  for (; counter < 4; ++counter) {
    if (manager->Save()->outcome == SaveOutcome::kSaved) {
      saved_at.push_back(counter);
    }
  }
  EXPECT_THAT(saved_at, ElementsAre(3));
}

}  // namespace
}  // namespace belay::checkpoint_manager_test
