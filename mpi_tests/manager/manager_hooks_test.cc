// What is said of single saves of a run, and readers that keep a step.

#include <optional>
#include <string>

#include "belay/checkpoint_reader.h"
#include "belay/manager/metadata.h"
#include "belay/reader/step_pin.h"
#include "manager_testing.h"

namespace belay::testing::manager_hooks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ManagerHooksTest = ManagerTest;

TEST_F(ManagerHooksTest, OptionsOfOneSave) {
  auto manager = Manage();
  ASSERT_EQ(manager.status(), absl::OkStatus());
  const SaveOptions per_task = {.file_layout = FileLayout::kPerTask,
                                .checksums = false,
                                .durable = false,
                                .deadline_seconds = 60};
  ASSERT_EQ(SaveStep(*manager, 1)->outcome, SaveOutcome::kSaved);
  ASSERT_EQ(SaveStep(*manager, 2, {.save = per_task})->outcome,
            SaveOutcome::kSaved);
  ASSERT_EQ(SaveStep(*manager, 3)->outcome, SaveOutcome::kSaved);
  for (const int64_t step : {1, 2, 3}) {
    const StatusOr<CheckpointInfo> info = ReadCheckpointInfo(StepDir(step));
    ASSERT_EQ(info.status(), absl::OkStatus());
    EXPECT_EQ(info->file_layout,
              step == 2 ? FileLayout::kPerTask : FileLayout::kShared);
    EXPECT_EQ(info->has_checksums, step != 2);
  }
  ASSERT_EQ(manager->Restore(2).status(), absl::OkStatus());
  EXPECT_TRUE(program_.Is(2));
}

TEST_F(ManagerHooksTest, MetadataOfTheRunAndOfAStep) {
  ManagerOptions options;
  options.metadata = {{"commit", "1a2b"}, {"phase", "first"}};
  options.save.metadata = {{"phase", "first"}};
  auto manager = Manage(options);
  ASSERT_EQ(manager.status(), absl::OkStatus());
  ASSERT_EQ(SaveStep(*manager, 1)->outcome, SaveOutcome::kSaved);
  ASSERT_EQ(SaveStep(*manager, 2, {.metadata = {{"phase", "second"}}})->outcome,
            SaveOutcome::kSaved);
  EXPECT_EQ(ReadMetadata(StepDir(1)).value(), options.metadata);
  EXPECT_EQ(ReadMetadata(Run()).value(),
            (Metadata{{"commit", "1a2b"}, {"phase", "second"}}));
}

TEST_F(ManagerHooksTest, AStepThatIsPinnedStaysUntilTheNextSave) {
  auto manager = Manage({.retention = {.max_to_keep = 1}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  ASSERT_EQ(SaveStep(*manager, 1)->outcome, SaveOutcome::kSaved);
  std::optional<StepPin> pin;
  OnRank0([&] { pin = StepPin::Take(Run()).value(); });
  const StatusOr<ManagedSave> second = SaveStep(*manager, 2);
  ASSERT_EQ(second.status(), absl::OkStatus());
  EXPECT_THAT(second->deleted, ElementsAre());
  EXPECT_THAT(second->notes,
              ElementsAre(HasSubstr("a program that reads it has pinned it")));
  EXPECT_THAT(second->ToString(), HasSubstr("\nnote: remove"));
  EXPECT_EQ(manager->Steps(), Steps({1, 2}));
  EXPECT_FALSE(manager->Delete(1).ok());
  if (WorldRank() == 0) {
    EXPECT_EQ(pin->path(), StepDir(1));
    EXPECT_EQ(CheckpointReader::Open(pin->path()).status(), absl::OkStatus());
  }
  OnRank0([&] { pin.reset(); });
  const StatusOr<ManagedSave> third = SaveStep(*manager, 3);
  ASSERT_EQ(third.status(), absl::OkStatus());
  EXPECT_THAT(third->deleted, ElementsAre(1, 2));
  EXPECT_THAT(third->ToString(), HasSubstr("\ndeleted: 1, 2"));
  EXPECT_TRUE(absl::IsNotFound(StepPin::Take(StepDir(1)).status()));
}

TEST_F(ManagerHooksTest, AStepThatIsPinnedIsNotReplaced) {
  auto manager = Manage();
  ASSERT_EQ(manager.status(), absl::OkStatus());
  ASSERT_EQ(SaveStep(*manager, 1)->outcome, SaveOutcome::kSaved);
  std::optional<StepPin> pin;
  OnRank0([&] { pin = StepPin::Take(StepDir(1)).value(); });
  SaveOptions how = {.overwrite = true, .durable = false};
  how.deadline_seconds = 60;
  const Status status = program_.checkpoint().SaveAs(StepDir(1), how).status();
  EXPECT_THAT(SameError(status, absl::StatusCode::kFailedPrecondition),
              HasSubstr("pinned"));
  OnRank0([&] { pin.reset(); });
  EXPECT_EQ(program_.checkpoint().SaveAs(StepDir(1), how).status(),
            absl::OkStatus());
}

}  // namespace
}  // namespace belay::testing::manager_hooks_test
