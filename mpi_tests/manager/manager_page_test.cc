// The code of docs/manager.md and docs/restart.md, which show parts of this
// file word for word.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "belay/checkpoint_manager.h"
#include "manager_testing.h"

namespace belay::manager_page_test {
namespace {

using ::testing::ElementsAre;
using testing::ManagerTest;
using testing::Steps;

class ManagerPageTest : public ManagerTest {};

Status TrainAndKeep(belay::Checkpoint& checkpoint, const std::string& dir,
                    int64_t steps, const std::function<void()>& Train) {
  auto manager = belay::CheckpointManager::Create(
      checkpoint, dir,
      {.save_policy = {.save_interval_steps = 10},
       .retention = {.max_to_keep = 2}});
  if (!manager.ok()) return manager.status();
  auto restored = manager->RestoreOrInitialize();
  if (!restored.ok()) return restored.status();
  for (int64_t step = restored->step.value_or(-1) + 1; step < steps; ++step) {
    Train();
    auto saved = manager->Save(step);
    if (!saved.ok()) return saved.status();
  }
  return absl::OkStatus();
}

TEST_F(ManagerPageTest, ATrainingLoop) {
  int trained = 0;
  for (const int64_t steps : {25, 52}) {
    ASSERT_EQ(
        TrainAndKeep(program_.checkpoint(), Run(), steps, [&] { ++trained; }),
        absl::OkStatus());
  }
  EXPECT_EQ(OnDisk(), Steps({40, 50}));
  // 25 steps, and those after 20.
  EXPECT_EQ(trained, 25 + 31);
}

Status ComputeAndKeep(const belay::Comm& comm, const std::string& dir,
                      int64_t steps,
                      const std::function<void(double&)>& Advance) {
  const belay::Box box = {.offset = {comm.rank()}, .shape = {1}};
  std::vector<double> u(1);
  belay::State state;
  state.AddPiece("u", {comm.size()}, box, u);
  auto manager = belay::CheckpointManager::Create(
      comm, state, dir,
      {.save_policy = {.save_interval_steps = 10},
       .retention = {.max_to_keep = 2}});
  if (!manager.ok()) return manager.status();
  auto restored = manager->RestoreOrInitialize();
  if (!restored.ok()) return restored.status();
  for (int64_t step = restored->step.value_or(-1) + 1; step < steps; ++step) {
    Advance(u[0]);
    auto saved = manager->Save(step);
    if (!saved.ok()) return saved.status();
  }
  return absl::OkStatus();
}

TEST_F(ManagerPageTest, ALoopWithoutObjects) {
  double last = 0;
  const auto compute = [&](double& u) { last = ++u; };
  for (const int64_t steps : {25, 52}) {
    ASSERT_EQ(ComputeAndKeep(program_.comm(), Run(), steps, compute),
              absl::OkStatus());
    // As many as were computed, whatever was computed twice.
    EXPECT_EQ(last, static_cast<double>(steps));
  }
  EXPECT_EQ(OnDisk(), Steps({40, 50}));
}

StatusOr<int> TrainUntilStopped(belay::Checkpoint& checkpoint,
                                const std::string& dir, int64_t steps,
                                const std::function<void()>& Train) {
  auto manager = belay::CheckpointManager::Create(
      checkpoint, dir,
      {.save_policy = {.auto_interval =
                           belay::AutoInterval{.mtbf_seconds = 24 * 3600}},
       .stop_signals = {SIGUSR1, SIGTERM},
       .stop_at_time_limit = true});
  if (!manager.ok()) return manager.status();
  auto restored = manager->RestoreOrInitialize();
  if (!restored.ok()) return restored.status();
  if (restored->step) {  // a key that was renamed would begin anew
    auto all = restored->load_status.AssertExistingObjectsMatched();
    if (!all.ok()) return all;
  }
  for (int64_t step = restored->step.value_or(-1) + 1; step < steps; ++step) {
    Train();
    auto due = manager->ShouldSave(step);
    if (!due.ok()) return due.status();
    if (*due) {
      auto saved = manager->Save(step);
      if (!saved.ok()) return saved.status();
    }
    if (manager->ShouldStop()) return belay::kStoppedExitCode;
  }
  if (manager->LatestStep().value_or(-1) < steps - 1) {
    auto saved = manager->Save(steps - 1, {.force = true});
    if (!saved.ok()) return saved.status();
  }
  return 0;
}

// One rank gets the signal, in the middle of a step.
TEST_F(ManagerPageTest, ALoopThatStopsWhenItIsAsked) {
  int trained = 0;
  const auto train = [&] {
    const bool is_last = testing::WorldRank() == testing::WorldSize() - 1;
    if (++trained == 3 && is_last) kill(getpid(), SIGUSR1);
  };
  EXPECT_EQ(TrainUntilStopped(program_.checkpoint(), Run(), 9, train).value(),
            belay::kStoppedExitCode);
  EXPECT_EQ(OnDisk(), Steps({0, 3}));
  EXPECT_EQ(TrainUntilStopped(program_.checkpoint(), Run(), 9, train).value(),
            0);
  EXPECT_EQ(trained, 9);
  EXPECT_EQ(OnDisk(), Steps({0, 3, 8}));
  // Nothing is left to train or to save.
  EXPECT_EQ(TrainUntilStopped(program_.checkpoint(), Run(), 9, train).value(),
            0);
  EXPECT_EQ(trained, 9);
  EXPECT_EQ(OnDisk(), Steps({0, 3, 8}));
}

StatusOr<std::optional<int64_t>> KeepTheBest(
    belay::Checkpoint& checkpoint, const std::string& dir,
    const std::vector<double>& losses) {
  auto manager = belay::CheckpointManager::Create(
      checkpoint, dir,
      {.retention = {.max_to_keep = 3,
                     .best_metric = "loss",
                     .best_mode = belay::BestMode::kMin}});
  if (!manager.ok()) return manager.status();
  for (int64_t step = 0; step < static_cast<int64_t>(losses.size()); ++step) {
    auto saved = manager->Save(
        step, {.metrics = belay::Metrics{{"loss", losses[step]}}});
    if (!saved.ok()) return saved.status();
  }
  return manager->BestStep();
}

TEST_F(ManagerPageTest, TheBestSteps) {
  EXPECT_EQ(
      KeepTheBest(program_.checkpoint(), Run(), {5, 2, 4, 3, 7, 1}).value(), 5);
  EXPECT_EQ(OnDisk(), Steps({1, 3, 5}));
}

TEST_F(ManagerPageTest, RulesTogether) {
  belay::ManagerOptions options;
  options.retention.preservation = belay::AnyOfPolicies(
      {belay::LatestN(2), belay::EveryNSteps(1000), belay::CustomSteps({7})});

  auto manager = Manage(options);
  for (const int64_t step : {7, 900, 1000, 1100, 1200, 1300}) {
    EXPECT_EQ(SaveStep(*manager, step).status(), absl::OkStatus());
  }
  EXPECT_EQ(OnDisk(), Steps({7, 1000, 1200, 1300}));
}

Status EvaluateEach(belay::Checkpoint& checkpoint, const std::string& dir,
                    double patience,
                    const std::function<void(int64_t)>& Evaluate) {
  auto reader =
      belay::CheckpointManager::Create(checkpoint, dir, {.read_only = true});
  if (!reader.ok()) return reader.status();
  for (std::optional<int64_t> last;;) {
    auto found = reader->WaitForNewStep(last, patience);
    if (!found.ok()) return found.status();
    if (!found->has_value()) return absl::OkStatus();
    auto restored = reader->RestoreLatest();
    if (!restored.ok()) return restored.status();
    if (restored->step > last) Evaluate(*restored->step);
    last = std::max(*found, restored->step);
  }
}

TEST_F(ManagerPageTest, AnEvaluator) {
  auto writer = Manage();
  ASSERT_EQ(SaveStep(*writer, 1).status(), absl::OkStatus());
  Steps evaluated;
  const auto evaluate = [&](int64_t step) {
    evaluated.push_back(step);
    if (step < 3) {
      EXPECT_EQ(SaveStep(*writer, step + 1).status(), absl::OkStatus());
    }
  };
  EXPECT_EQ(EvaluateEach(program_.checkpoint(), Run(), 0.1, evaluate),
            absl::OkStatus());
  EXPECT_THAT(evaluated, ElementsAre(1, 2, 3));
}

// The step that was found is gone, and a newer one is restored.
TEST_F(ManagerPageTest, AnEvaluatorTakesANewerStepOnce) {
  auto writer = Manage();
  ASSERT_EQ(SaveStep(*writer, 1).status(), absl::OkStatus());
  int restores = 0;
  program_.on_track = [&] {
    if (++restores > 1 || testing::WorldRank() != 0) return;
    std::filesystem::rename(StepDir(1), StepDir(5));
  };
  Steps evaluated;
  EXPECT_EQ(EvaluateEach(program_.checkpoint(), Run(), 0.1,
                         [&](int64_t step) { evaluated.push_back(step); }),
            absl::OkStatus());
  EXPECT_THAT(evaluated, ElementsAre(5));
}

// The step that was found cannot be restored, and the one before is known.
TEST_F(ManagerPageTest, AnEvaluatorPassesOverADamagedStep) {
  auto writer = Manage();
  ASSERT_EQ(SaveStep(*writer, 1).status(), absl::OkStatus());
  Steps evaluated;
  const auto evaluate = [&](int64_t step) {
    evaluated.push_back(step);
    EXPECT_EQ(SaveStep(*writer, 2).status(), absl::OkStatus());
    testing::OnRank0(
        [&] { std::filesystem::remove(StepDir(2) + "/index.h5"); });
  };
  EXPECT_EQ(EvaluateEach(program_.checkpoint(), Run(), 0.1, evaluate),
            absl::OkStatus());
  EXPECT_THAT(evaluated, ElementsAre(1));
}

}  // namespace
}  // namespace belay::manager_page_test
