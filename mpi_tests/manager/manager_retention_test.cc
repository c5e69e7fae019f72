// The behaviour of Orbax's CheckpointManager.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "belay/checkpoint_manager.h"
#include "manager_testing.h"

namespace belay::manager_retention_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ManagerTest;
using testing::OnRank0;
using testing::Steps;

constexpr double kHour = 3600;

class ManagerRetentionTest : public ManagerTest {
 protected:
  // Saves the steps [first, end), an hour after each other.
  void SaveHourly(CheckpointManager& manager, int64_t first, int64_t end) {
    for (int64_t step = first; step < end; ++step) {
      time_ = static_cast<double>(step) * kHour;
      EXPECT_EQ(SaveStep(manager, step).status(), absl::OkStatus());
    }
  }
};

TEST_F(ManagerRetentionTest, MaxToKeep) {
  auto manager = Manage({.retention = {.max_to_keep = 2}});
  SaveHourly(*manager, 0, 5);
  EXPECT_EQ(OnDisk(), Steps({3, 4}));
  EXPECT_EQ(manager->Steps(), Steps({3, 4}));
}

// Elsewhere nothing would be left.
TEST_F(ManagerRetentionTest, OneStepStaysAlsoWithAMaximumOfZero) {
  auto manager = Manage({.retention = {.max_to_keep = 0}});
  SaveHourly(*manager, 0, 4);
  const auto last = SaveStep(*manager, 4);
  EXPECT_THAT(
      last->notes,
      ElementsAre("step 4 stays: no other managed step that is kept can "
                  "be restored"));
  EXPECT_EQ(OnDisk(), Steps({4}));
  EXPECT_EQ(manager->RestoreLatest()->step, 4);
}

// What somebody else has saved there may be anything.
TEST_F(ManagerRetentionTest, TheStepThatStaysIsTheNewestManagedOne) {
  OnRank0([&] { fs::create_directory(Run()); });
  ASSERT_EQ(program_.checkpoint().SaveAs(StepDir(50)).status(),
            absl::OkStatus());
  auto manager = Manage({.retention = {.max_to_keep = 0}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_THAT(manager->notes(),
              ElementsAre("1 of the steps was saved by no manager; it is never "
                          "deleted"));
  EXPECT_THAT(SaveStep(*manager, 51)->deleted, ElementsAre());
  const auto newer = SaveStep(*manager, 60);
  EXPECT_EQ(newer->outcome, SaveOutcome::kSaved);
  EXPECT_THAT(newer->deleted, ElementsAre(51));
  EXPECT_THAT(newer->notes,
              ElementsAre(HasSubstr("step 60 stays: no other managed step")));
  const auto older = SaveStep(*manager, 55, {.force = true});
  EXPECT_THAT(older->deleted, ElementsAre(55));
  EXPECT_EQ(OnDisk(), Steps({50, 60}));
}

// Nor one that cannot be opened.
TEST_F(ManagerRetentionTest, TheStepThatStaysOpens) {
  auto manager = Manage({.retention = {.max_to_keep = 0}});
  SaveHourly(*manager, 0, 2);
  OnRank0([&] { fs::remove(StepDir(1) + "/index.h5"); });
  EXPECT_THAT(SaveStep(*manager, 0, {.force = true})->deleted, ElementsAre(1));
  EXPECT_EQ(OnDisk(), Steps({0}));
}

TEST_F(ManagerRetentionTest, StepsThatSomebodyDeletedDoNotCount) {
  auto manager = Manage({.retention = {.max_to_keep = 2}});
  SaveHourly(*manager, 1, 3);
  OnRank0([&] { fs::remove_all(StepDir(2)); });
  EXPECT_THAT(SaveStep(*manager, 3)->deleted, ElementsAre());
  EXPECT_EQ(OnDisk(), Steps({1, 3}));
  EXPECT_EQ(manager->Steps(), Steps({1, 3}));
  EXPECT_EQ(Active(*manager), Steps({1, 3}));
  OnRank0([&] {
    for (const int64_t step : {1, 3}) fs::remove_all(StepDir(step));
  });
  EXPECT_THAT(SaveStep(*manager, 4)->deleted, ElementsAre());
  EXPECT_EQ(manager->Steps(), Steps({4}));
}

TEST_F(ManagerRetentionTest, KeepPeriodAndInterval) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 2},
                         .retention = {.max_to_keep = 2, .keep_period = 4}});
  SaveHourly(*manager, 0, 12);
  EXPECT_EQ(OnDisk(), Steps({0, 4, 8, 10}));
  EXPECT_EQ(manager->ShouldSave(11).value(), false);
  EXPECT_EQ(manager->ShouldSave(12).value(), true);
  EXPECT_THAT(std::string(manager->Save().status().message()),
              ::testing::StartsWith("save \"" + Run() +
                                    "\": save_interval_steps, save_on_steps "
                                    "and save_first_step need a step; pass "
                                    "one"));
}

TEST_F(ManagerRetentionTest, KeepTimeIntervalOverTwoLifetimes) {
  const ManagerOptions options{
      .retention = {.max_to_keep = 2, .keep_time_interval = 3 * kHour}};
  time_ = 0;
  std::optional<CheckpointManager> manager = *Manage(options);
  SaveHourly(*manager, 0, 10);
  EXPECT_EQ(OnDisk(), Steps({0, 3, 6, 8, 9}));
  manager.reset();
  manager = *Manage(options);
  SaveHourly(*manager, 10, 20);
  EXPECT_EQ(OnDisk(), Steps({0, 3, 6, 9, 12, 15, 18, 19}));
}

TEST_F(ManagerRetentionTest, RulesTogether) {
  auto manager = Manage({.retention = {.max_to_keep = 0,
                                       .keep_period = 3,
                                       .keep_time_interval = 5 * kHour}});
  SaveHourly(*manager, 0, 9);
  EXPECT_EQ(OnDisk(), Steps({0, 3, 5, 6}));
}

TEST_F(ManagerRetentionTest, BestOverTwoLifetimes) {
  const std::vector<double> losses = {5, 2, 4, 3, 7, 1, 10, 9, 7, 4};
  const ManagerOptions options{.retention = {.max_to_keep = 2,
                                             .best_metric = "loss",
                                             .best_mode = BestMode::kMin}};
  std::optional<CheckpointManager> manager = *Manage(options);
  for (int64_t step = 0; step < 10; ++step) {
    if (step == 5) {
      manager.reset();
      manager = *Manage(options);
      EXPECT_EQ(manager->BestStep().value(), 1);
    }
    time_ += 1;
    const auto saved =
        SaveStep(*manager, step, {.metrics = Metrics{{"loss", losses[step]}}});
    EXPECT_EQ(saved.status(), absl::OkStatus());
  }
  EXPECT_EQ(OnDisk(), Steps({1, 5}));
  EXPECT_EQ(manager->BestStep().value(), 5);
  EXPECT_EQ(manager->StepMetrics(1).value(), (Metrics{{"loss", 2}}));
  EXPECT_EQ(manager->StepMetrics(2).status().code(),
            absl::StatusCode::kNotFound);
}

// Metrics of rank 0 count, and are the same on all ranks afterwards.
TEST_F(ManagerRetentionTest, MetricsAreThoseOfRank0) {
  auto manager = Manage({.retention = {.best_metric = "loss"}});
  const double mine = 1 + testing::WorldRank();
  ASSERT_EQ(
      SaveStep(*manager, 1, {.metrics = Metrics{{"loss", mine}}}).status(),
      absl::OkStatus());
  EXPECT_EQ(manager->StepMetrics(1).value(), (Metrics{{"loss", 1}}));
  EXPECT_EQ(
      SaveStep(*manager, 2, {.metrics = Metrics{{"\xff", 1}}}).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(manager->Steps(), Steps({1}));
}

TEST_F(ManagerRetentionTest, WithoutMetricsNoStepIsBest) {
  auto manager =
      Manage({.retention = {.max_to_keep = 1, .best_metric = "loss"}});
  SaveHourly(*manager, 0, 3);
  EXPECT_EQ(OnDisk(), Steps({0, 1, 2}));
  EXPECT_EQ(manager->BestStep().value(), std::nullopt);
  EXPECT_EQ(manager->LatestStep(), 2);
}

TEST_F(ManagerRetentionTest, AMisspeltMetricIsNoted) {
  auto manager = Manage({.retention = {.best_metric = "loss"}});
  const auto notes = [&](int64_t step, const std::optional<Metrics>& metrics) {
    return SaveStep(*manager, step, {.metrics = metrics})->notes;
  };
  EXPECT_THAT(notes(1, Metrics{{"accuracy", 1}, {"lss", 2}}),
              ElementsAre("the metrics of step 1 have no \"loss\", which is "
                          "best_metric; close to it: \"lss\""));
  EXPECT_THAT(notes(2, Metrics{{"accuracy", 1}}),
              ElementsAre("the metrics of step 2 have no \"loss\", which is "
                          "best_metric"));
  EXPECT_THAT(notes(3, Metrics{{"loss", 1}, {"lss", 2}}), ElementsAre());
  EXPECT_THAT(notes(4, std::nullopt), ElementsAre());
}

TEST_F(ManagerRetentionTest, AUsersPolicy) {
  auto manager =
      Manage({.retention = {.preservation = AnyOfPolicies(
                                {LatestN(1), CustomSteps({0, 3})})}});
  SaveHourly(*manager, 0, 6);
  EXPECT_EQ(OnDisk(), Steps({0, 3, 5}));
}

TEST_F(ManagerRetentionTest, APolicyThatFailsDeletesNothing) {
  int calls = 0;
  auto manager = Manage(
      {.retention = {.preservation = PreservationPolicy{
                         .description = "mine",
                         .parameters = {},
                         .keep = [&](const std::vector<StepRecord>& steps,
                                     double) -> StatusOr<std::vector<bool>> {
                           if (!steps.empty() && ++calls > 1)
                             throw std::string("no");
                           return std::vector<bool>(steps.size(), true);
                         }}}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_THAT(SaveStep(*manager, 1)->notes, ElementsAre());
  EXPECT_THAT(SaveStep(*manager, 2)->notes,
              ElementsAre("preservation policy \"mine\": exception of a type "
                          "without text"));
  EXPECT_EQ(OnDisk(), Steps({1, 2}));
}

TEST_F(ManagerRetentionTest, ForcedSaves) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 2}});
  SaveHourly(*manager, 0, 5);
  EXPECT_EQ(OnDisk(), Steps({0, 2, 4}));
  const auto refused = SaveStep(*manager, 5);
  EXPECT_EQ(refused->outcome, SaveOutcome::kSkipped);
  EXPECT_EQ(refused->reason,
            "step 5 is neither a multiple of 2 nor in save_on_steps");
  EXPECT_EQ(SaveStep(*manager, 5, {.force = true})->outcome,
            SaveOutcome::kSaved);
  EXPECT_EQ(OnDisk(), Steps({0, 2, 4, 5}));
  const auto again = SaveStep(*manager, 5, {.force = true});
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(SaveStep(*manager, 4)->outcome, SaveOutcome::kSkipped);
  EXPECT_EQ(manager->Steps(), Steps({0, 2, 4, 5}));
}

// Only the answer of rank 0 counts.
TEST_F(ManagerRetentionTest, ShouldSave) {
  auto manager =
      Manage({.save_policy = {.should_save = [](int64_t step,
                                                std::optional<int64_t> latest) {
                return testing::WorldRank() == 0 ? step % 3 == 1 || latest == 4
                                                 : step % 2 == 1;
              }}});
  SaveHourly(*manager, 0, 6);
  EXPECT_EQ(OnDisk(), Steps({1, 4, 5}));
}

TEST_F(ManagerRetentionTest, Delete) {
  auto manager = Manage();
  SaveHourly(*manager, 0, 3);
  EXPECT_EQ(manager->Delete(1), absl::OkStatus());
  EXPECT_EQ(OnDisk(), Steps({0, 2}));
  EXPECT_EQ(manager->Steps(), Steps({0, 2}));
  EXPECT_EQ(Active(*manager), Steps({0, 2}));
  const Status missing = manager->Delete(1);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
  EXPECT_THAT(Content("step.manager.json"),
              ::testing::Not(HasSubstr("\"step\": 1")));
}

TEST_F(ManagerRetentionTest, ReloadSeesWhatOthersDid) {
  auto manager = Manage();
  SaveHourly(*manager, 0, 3);
  OnRank0([&] { fs::remove_all(StepDir(1)); });
  EXPECT_EQ(manager->Steps(), Steps({0, 1, 2}));
  EXPECT_EQ(manager->Reload(), absl::OkStatus());
  EXPECT_EQ(manager->Steps(), Steps({0, 2}));
}

TEST_F(ManagerRetentionTest, ReadOnlyManagersFollow) {
  auto writer = Manage({.retention = {.max_to_keep = 2}});
  ASSERT_EQ(writer.status(), absl::OkStatus());
  auto reader =
      Manage({.retention = {.best_metric = "loss"}, .read_only = true});
  ASSERT_EQ(reader.status(), absl::OkStatus());
  EXPECT_EQ(reader->WaitForNewStep({}, 0.02, 0.01).value(), std::nullopt);
  for (int64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(
        SaveStep(*writer, step, {.metrics = Metrics{{"loss", step}}}).ok());
  }
  EXPECT_EQ(reader->Steps(), Steps());
  EXPECT_EQ(reader->WaitForNewStep(1, 10).value(), 2);
  EXPECT_EQ(reader->WaitForNewStep(2, 0, 0.01).value(), std::nullopt);
  EXPECT_EQ(reader->Steps(), Steps({1, 2}));
  EXPECT_EQ(reader->BestStep().value(), 2);
  EXPECT_EQ(reader->Save()->outcome, SaveOutcome::kSkipped);
  EXPECT_EQ(reader->Delete(1).code(), absl::StatusCode::kFailedPrecondition);
  program_.Set(0);
  EXPECT_EQ(reader->RestoreLatest()->step, 2);
  EXPECT_TRUE(program_.Is(2));
  EXPECT_EQ(reader->WaitForNewStep(2, -1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ManagerRetentionTest, AReaderMayBeginBeforeTheWriter) {
  auto reader = Manage({.read_only = true});
  ASSERT_EQ(reader.status(), absl::OkStatus());
  EXPECT_THAT(reader->notes(),
              ElementsAre("there is no directory \"" + Run() + "\" yet"));
  EXPECT_EQ(reader->Steps(), Steps());
  EXPECT_EQ(reader->WaitForNewStep({}, 0.02, 0.01).value(), std::nullopt);
  EXPECT_EQ(reader->RestoreOrInitialize()->step, std::nullopt);
  OnRank0([&] { EXPECT_FALSE(fs::exists(Run())); });
  auto writer = Manage();
  ASSERT_EQ(SaveStep(*writer, 1).status(), absl::OkStatus());
  EXPECT_EQ(reader->WaitForNewStep({}, 10).value(), 1);
  EXPECT_EQ(reader->RestoreLatest()->step, 1);
  // One whose directory goes while it writes is told.
  OnRank0([&] { fs::remove_all(Run()); });
  EXPECT_EQ(writer->Reload().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(reader->Reload(), absl::OkStatus());
  EXPECT_EQ(reader->LatestStep(), std::nullopt);
}

}  // namespace
}  // namespace belay::manager_retention_test
