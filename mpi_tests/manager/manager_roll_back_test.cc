// A training that goes back to an older step and goes on from there.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/fault.h"
#include "fault_points.h"
#include "manager_testing.h"

namespace belay::testing::manager_roll_back_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ManagerRollBackTest : public ManagerTest {
 protected:
  // A manager of steps 1 to 4.
  CheckpointManager Begin(const ManagerOptions& options) {
    StatusOr<CheckpointManager> manager = Manage(options);
    EXPECT_EQ(manager.status(), absl::OkStatus());
    SaveAll(*manager, 1, 5);
    return *std::move(manager);
  }
  CheckpointManager Begin(NewerSteps newer_steps) {
    return Begin(ManagerOptions{.newer_steps = newer_steps});
  }

  // How often rank 0 touches the file system before the restore is done.
  int64_t CountRestore() {
    CheckpointManager manager = Begin(NewerSteps::kRefuse);
    fault::Arm(INT64_MAX);
    EXPECT_EQ(manager.Restore(2).status(), absl::OkStatus());
    int64_t count = fault::Count();
    fault::Disarm();
    MPI_Bcast(&count, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return count;
  }

  // Goes back to step 2 and fails on the way, at each point once, and then
  // calls `then`.
  void ForEachFault(
      const std::function<void(NewerSteps, std::optional<CheckpointManager>&)>&
          then) {
    const int64_t first = CountRestore();
    for (const NewerSteps how : {NewerSteps::kSetAside, NewerSteps::kDelete}) {
      int reached = 1;
      for (int64_t point = first; reached != 0; point += StrideOr(2)) {
        SCOPED_TRACE(point);
        OnRank0([&] { fs::remove_all(Run()); });
        std::optional<CheckpointManager> manager = Begin(how);
        if (WorldRank() == 0) fault::Arm(point);
        manager->Restore(2).status().IgnoreError();
        reached = fault::Count() >= point ? 1 : 0;
        fault::Disarm();
        MPI_Bcast(&reached, 1, MPI_INT, 0, MPI_COMM_WORLD);
        then(how, manager);
      }
    }
  }
};

TEST_F(ManagerRollBackTest, ToSaveOverNewerStepsIsAnErrorAtFirst) {
  CheckpointManager manager = Begin(NewerSteps::kRefuse);
  ASSERT_EQ(manager.Restore(2).status(), absl::OkStatus());
  EXPECT_THAT(SameError(SaveStep(manager, 3).status(),
                        absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("step 2 was restored, and step 3 is not after "
                              "the latest step 4"),
                    HasSubstr("ManagerOptions.newer_steps")));
  EXPECT_EQ(OnDisk(), Steps({1, 2, 3, 4}));
  // That would be another one than the next start restores.
  EXPECT_THAT(SameError(manager.Save(3, {.force = true}).status(),
                        absl::StatusCode::kFailedPrecondition),
              HasSubstr("step 3 is not after the latest step 4"));
  // Behind the newest one it is a step as any other.
  const StatusOr<ManagedSave> behind = SaveStep(manager, 5);
  ASSERT_EQ(behind.status(), absl::OkStatus());
  EXPECT_EQ(behind->outcome, SaveOutcome::kSaved);
  EXPECT_THAT(behind->notes,
              ElementsAre(HasSubstr("step 2 was restored, and the newer steps "
                                    "3, 4 stay before step 5")));
  EXPECT_THAT(SaveStep(manager, 6)->notes, IsEmpty());
  EXPECT_EQ(manager.LatestStep(), 6);
  // Who has the newest again goes on as before.
  ASSERT_EQ(manager.Restore(2).status(), absl::OkStatus());
  ASSERT_EQ(manager.RestoreLatest().status(), absl::OkStatus());
  EXPECT_EQ(SaveStep(manager, 3)->outcome, SaveOutcome::kSkipped);
}

TEST_F(ManagerRollBackTest, NewerStepsThatSomebodyDeletesAreNotLeft) {
  CheckpointManager manager = Begin(NewerSteps::kRefuse);
  ASSERT_EQ(manager.Restore(2).status(), absl::OkStatus());
  ASSERT_EQ(manager.Delete(3), absl::OkStatus());
  ASSERT_EQ(manager.Delete(4), absl::OkStatus());
  const StatusOr<ManagedSave> saved = SaveStep(manager, 3);
  ASSERT_EQ(saved.status(), absl::OkStatus());
  EXPECT_EQ(saved->outcome, SaveOutcome::kSaved);
  EXPECT_THAT(saved->notes, IsEmpty());
  // By hand, which the manager sees when it looks.
  ASSERT_EQ(manager.Restore(2).status(), absl::OkStatus());
  OnRank0([&] { fs::remove_all(File("step_00000003")); });
  const StatusOr<ManagedSave> forced = manager.Save(3, {.force = true});
  ASSERT_EQ(forced.status(), absl::OkStatus());
  EXPECT_EQ(forced->outcome, SaveOutcome::kSaved);
  EXPECT_THAT(forced->notes, IsEmpty());
}

// A forced save among the old steps does not make newer ones of the branch.
TEST_F(ManagerRollBackTest, AForcedSaveBehindTheRestoredStepChangesNothing) {
  CheckpointManager manager = Begin(NewerSteps::kRefuse);
  ASSERT_EQ(manager.Restore(3).status(), absl::OkStatus());
  const ManagedSaveOptions again = {.force = true,
                                    .save = SaveOptions{.overwrite = true}};
  ASSERT_EQ(manager.Save(2, again).status(), absl::OkStatus());
  EXPECT_EQ(manager.Save(3, again).status(), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(manager.Save(4, again).status()));
}

TEST_F(ManagerRollBackTest, NewerStepsAreSetAside) {
  std::optional<CheckpointManager> manager = Begin(NewerSteps::kSetAside);
  const StatusOr<ManagedRestore> restored = manager->Restore(2);
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_TRUE(program_.Is(2));
  EXPECT_THAT(restored->set_aside, ElementsAre(3, 4));
  EXPECT_THAT(restored->deleted, IsEmpty());
  EXPECT_EQ(restored->aside, File("step.aside_0001"));
  EXPECT_THAT(restored->ToString(),
              HasSubstr("\nset aside in \"" + restored->aside + "\": 3, 4"));
  EXPECT_EQ(manager->LatestStep(), 2);
  EXPECT_EQ(manager->Steps(), Steps({1, 2}));
  EXPECT_EQ(OnDisk(), Steps({1, 2}));
  program_.Set(30);
  ASSERT_EQ(manager->Save(3)->outcome, SaveOutcome::kSaved);
  // The branch that was given up is still there.
  Checkpoint& checkpoint = program_.checkpoint();
  ASSERT_EQ(checkpoint.Restore(restored->aside).status(), absl::OkStatus());
  EXPECT_TRUE(program_.Is(4));
  // Another manager knows the new one only, and leaves that alone.
  manager.reset();
  auto next = Manage({.newer_steps = NewerSteps::kSetAside});
  ASSERT_EQ(next.status(), absl::OkStatus());
  ASSERT_EQ(next->RestoreOrInitialize()->step, 3);
  EXPECT_TRUE(program_.Is(30));
  EXPECT_TRUE(fs::exists(File("step.aside_0001/step_00000004/index.h5")));
  ASSERT_EQ(next->Restore(1)->aside, File("step.aside_0002"));
}

TEST_F(ManagerRollBackTest, NewerStepsAreDeleted) {
  CheckpointManager manager = Begin(NewerSteps::kDelete);
  const StatusOr<ManagedRestore> restored = manager.Restore(2);
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_THAT(restored->deleted, ElementsAre(3, 4));
  EXPECT_THAT(restored->ToString(), HasSubstr("\ndeleted: 3, 4"));
  EXPECT_EQ(OnDisk(), Steps({1, 2}));
  EXPECT_FALSE(fs::exists(File("step.aside_0001")));
  EXPECT_EQ(manager.LatestStep(), 2);
}

// The best step of the branch that was given up counts no longer.
TEST_F(ManagerRollBackTest, WhatIsGivenUpCountsForNoRule) {
  ManagerOptions options = {
      .retention = {.max_to_keep = 3, .best_metric = "accuracy"}};
  options.newer_steps = NewerSteps::kSetAside;
  auto manager = Manage(options);
  ASSERT_EQ(manager.status(), absl::OkStatus());
  for (int64_t step = 1; step <= 3; ++step) {
    const Metrics metrics = {{"accuracy", static_cast<double>(step)}};
    ASSERT_EQ(SaveStep(*manager, step, {.metrics = metrics})->outcome,
              SaveOutcome::kSaved);
  }
  EXPECT_EQ(manager->BestStep().value(), 3);
  ASSERT_EQ(manager->Restore(1).status(), absl::OkStatus());
  EXPECT_EQ(manager->BestStep().value(), 1);
  EXPECT_EQ(Active(*manager), Steps({1}));
}

// The newest step is none to go back to, and a damaged one does not count.
TEST_F(ManagerRollBackTest, NothingIsNewer) {
  CheckpointManager manager = Begin(NewerSteps::kSetAside);
  const StatusOr<ManagedRestore> restored = manager.Restore(4);
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_THAT(restored->set_aside, IsEmpty());
  EXPECT_FALSE(fs::exists(File("step.aside_0001")));
  EXPECT_EQ(SaveStep(manager, 5)->outcome, SaveOutcome::kSaved);
}

// Rank 0 fails wherever it touches the file system (BELAY_SWEEP_STRIDE=1; else
// at a fourth of these places), and the job ends there. The next manager sees
// the old run or the new one, and nothing in between.
TEST_F(ManagerRollBackTest, ACrashLeavesTheOldBranchOrTheNewOne) {
  ForEachFault([&](NewerSteps how, std::optional<CheckpointManager>& manager) {
    manager.reset();
    auto next = Manage({.newer_steps = how});
    ASSERT_EQ(next.status(), absl::OkStatus());
    const Steps steps = OnDisk();
    EXPECT_TRUE(steps == Steps({1, 2, 3, 4}) || steps == Steps({1, 2}))
        << ::testing::PrintToString(steps);
    EXPECT_EQ(next->Steps(), steps);
    ASSERT_EQ(next->RestoreOrInitialize().status(), absl::OkStatus());
    EXPECT_TRUE(program_.Is(steps.back()));
    EXPECT_EQ(SaveStep(*next, steps.back() + 1)->outcome, SaveOutcome::kSaved);
  });
}

// A job that goes on has one of the two as well, and its next save finishes
// what was begun.
TEST_F(ManagerRollBackTest, AFailureIsMadeUpForByTheNextSave) {
  ForEachFault([&](NewerSteps, std::optional<CheckpointManager>& manager) {
    const int64_t latest = manager->LatestStep().value();
    EXPECT_TRUE(latest == 2 || latest == 4) << latest;
    const StatusOr<ManagedSave> saved = SaveStep(*manager, latest + 1);
    ASSERT_EQ(saved.status(), absl::OkStatus());
    EXPECT_EQ(saved->outcome, SaveOutcome::kSaved);
    EXPECT_EQ(OnDisk(),
              latest == 2 ? Steps({1, 2, 3}) : Steps({1, 2, 3, 4, 5}));
    ASSERT_EQ(manager->RestoreLatest().status(), absl::OkStatus());
    EXPECT_TRUE(program_.Is(latest + 1));
  });
}

}  // namespace
}  // namespace belay::testing::manager_roll_back_test
