// Managers whose directory, options or arguments are bad.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "belay/checkpoint_manager.h"
#include "manager_testing.h"

namespace belay::manager_arguments_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::ManagerTest;
using testing::OnRank0;
using ::testing::StartsWith;
using testing::Steps;
using testing::WorldRank;
using testing::WorldSize;

class ManagerArgumentsTest : public ManagerTest {};

TEST_F(ManagerArgumentsTest, BadDirectories) {
  const auto create = [&](const std::string& dir) {
    return CheckpointManager::Create(program_.checkpoint(), dir).status();
  };
  OnRank0([&] { std::ofstream(scratch_.File("file")) << "x"; });
  EXPECT_THAT(SameError(create(scratch_.File("file")),
                        absl::StatusCode::kInvalidArgument),
              HasSubstr("not a directory"));
  SameError(create(scratch_.File("none/run")), absl::StatusCode::kNotFound);
  OnRank0([&] { fs::create_directory(Run()); });
  Put("step.manager.json", "{\"format\": \"other\"}");
  SameError(create(Run()), absl::StatusCode::kFailedPrecondition);
  Put("step.manager.json", "{\"format\": \"bel");
  SameError(create(Run()), absl::StatusCode::kDataLoss);
  OnRank0([&] { fs::remove(File("step.manager.json")); });
  Put("step.lease", "someone's notes");
  SameError(create(Run()), absl::StatusCode::kFailedPrecondition);
  OnRank0([&] { fs::remove(File("step.lease")); });
  // A step in the place of its run.
  Put("index.h5", "");
  EXPECT_THAT(
      SameError(create(Run()), absl::StatusCode::kInvalidArgument),
      HasSubstr(
          "this is a step, which never changes, not the directory of a run"));
  SameError(Manage({.read_only = true}).status(),
            absl::StatusCode::kInvalidArgument);
  OnRank0([&] { fs::remove(File("index.h5")); });
  EXPECT_EQ(create(Run()), absl::OkStatus());
}

TEST_F(ManagerArgumentsTest, BadOptions) {
  const Status bad =
      Manage({.retention = {.max_to_keep = -1, .keep_period = 0}}).status();
  const std::string message =
      SameError(bad, absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message, HasSubstr("max_to_keep is out of range"));
  EXPECT_THAT(message, HasSubstr("keep_period is out of range"));
  OnRank0([&] { EXPECT_FALSE(fs::exists(Run())); });
  if (WorldSize() == 1) return;
  EXPECT_THAT(
      SameError(Manage({.retention = {.max_to_keep = WorldRank()}}).status(),
                absl::StatusCode::kInvalidArgument),
      HasSubstr("manage: the option max_to_keep differs between "
                "ranks"));
}

// They would be told by the first save, hours later.
TEST_F(ManagerArgumentsTest, BadSaveOptions) {
  const auto create = [&](const SaveOptions& save) {
    return SameError(
        CheckpointManager::Create(program_.checkpoint(), Run(), {.save = save})
            .status(),
        absl::StatusCode::kInvalidArgument);
  };
  EXPECT_THAT(create({.max_bytes_in_flight = 1}),
              StartsWith("manage \"" + Run() +
                         "\": max_bytes_in_flight is out of range (need 4096 "
                         "to 1073741824, found 1)"));
  EXPECT_THAT(create({.deadline_seconds = -1}),
              HasSubstr("deadline_seconds is out of range (need at least 0, "
                        "found -1)"));
  OnRank0([&] { EXPECT_FALSE(fs::exists(Run())); });
  if (WorldSize() == 1) return;
  EXPECT_THAT(create({.read_back = WorldRank() == 1}),
              HasSubstr("manage: the option save.read_back differs between "
                        "ranks"));
}

TEST_F(ManagerArgumentsTest, AManagerThatWasMovedFrom) {
  auto first = Manage();
  ASSERT_EQ(first.status(), absl::OkStatus());
  const CheckpointManager second = *std::move(first);
  CheckpointManager& gone = *first;
  const auto code = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(SameError(gone.Save(5).status(), code),
            "save \"CheckpointManager\": it is closed, or was moved from");
  SameError(gone.ShouldSave().status(), code);
  SameError(gone.RestoreLatest().status(), code);
  SameError(gone.Restore(1).status(), code);
  SameError(gone.RestoreOrInitialize().status(), code);
  SameError(gone.Reload(), code);
  SameError(gone.Delete(1), code);
  SameError(gone.WaitForNewStep({}, 1).status(), code);
  SameError(gone.BestStep().status(), code);
  SameError(gone.StepMetrics(1).status(), code);
  EXPECT_EQ(gone.Steps(), Steps());
  EXPECT_EQ(gone.LatestStep(), std::nullopt);
  EXPECT_TRUE(gone.StepRecords().empty());
  EXPECT_EQ(gone.StepPath(1), "");
  EXPECT_TRUE(gone.notes().empty());
}

TEST_F(ManagerArgumentsTest, AManagerThatIsClosed) {
  auto manager = Manage({.async = AsyncOptions()});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  ASSERT_EQ(manager->Save(5).status(), absl::OkStatus());
  EXPECT_EQ(manager->Close(), absl::OkStatus());
  EXPECT_EQ(manager->Close(), absl::OkStatus());
  EXPECT_EQ(SameError(manager->Save(6).status(),
                      absl::StatusCode::kFailedPrecondition),
            "save \"CheckpointManager\": it is closed, or was moved from");
  EXPECT_EQ(manager->Steps(), Steps());
  const auto next = Manage();
  ASSERT_EQ(next.status(), absl::OkStatus()) << "the lease is not released";
  EXPECT_EQ(next->Steps(), Steps({5}));
}

TEST_F(ManagerArgumentsTest, ACheckpointThatWasMovedFrom) {
  Comm comm = *Comm::Duplicate(MPI_COMM_WORLD);
  Checkpoint checkpoint(comm, Checkpoint::Objects{});
  auto manager = CheckpointManager::Create(checkpoint, Run());
  ASSERT_EQ(manager.status(), absl::OkStatus());
  const Checkpoint other = std::move(checkpoint);
  const auto code = absl::StatusCode::kFailedPrecondition;
  SameError(manager->Save(5).status(), code);
  SameError(manager->ShouldSave(5).status(), code);
  SameError(manager->RestoreLatest().status(), code);
  SameError(manager->RestoreOrInitialize().status(), code);
  SameError(manager->Reload(), code);
  SameError(manager->Delete(1), code);
  SameError(manager->WaitForNewStep({}, 1).status(), code);
  SameError(CheckpointManager::Create(checkpoint, scratch_.File("b")).status(),
            code);
  comm.Close().IgnoreError();
  SameError(manager->Close(), code);
}

TEST_F(ManagerArgumentsTest, RanksThatDisagree) {
  auto manager = Manage();
  SaveAll(*manager, 1, 2);
  SameError(manager->Save(-1).status(), absl::StatusCode::kInvalidArgument);
  if (WorldSize() > 1) {
    const std::string message =
        SameError(manager->Save(5 + WorldRank()).status(),
                  absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(message, HasSubstr("save: the step, step_counter or force "
                                   "differs between ranks: rank 1 of"));
    EXPECT_THAT(message, HasSubstr("has \"step 6, "));
    SameError(manager->Save(5, {.force = WorldRank() == 1}).status(),
              absl::StatusCode::kInvalidArgument);
    SameError(manager->Delete(WorldRank()), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(OnDisk(), Steps({1}));
  EXPECT_EQ(manager->Steps(), Steps({1}));
}

TEST_F(ManagerArgumentsTest, ABadStepOfOneRankAtShouldSave) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 100}});
  SaveAll(*manager, 0, 1);
  for (int rank = 0; rank < WorldSize(); ++rank) {
    // To itself, too, only by the next call: the others do not know of it yet.
    EXPECT_EQ(manager->ShouldSave(WorldRank() == rank ? -1 : 1).value(), false);
    const std::string message = SameError(manager->ShouldSave(2).status(),
                                          absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(message, ::testing::HasSubstr("found -1"));
    EXPECT_THAT(message,
                ::testing::EndsWith(" [rank " + std::to_string(rank) + " of " +
                                    std::to_string(WorldSize()) + "]"));
    EXPECT_EQ(manager->ShouldSave(3).value(), false);
  }
}

TEST_F(ManagerArgumentsTest, AClockThatThrows) {
  ManagerOptions options{.clock = []() -> double { throw 1; }};
  SameError(
      CheckpointManager::Create(program_.checkpoint(), Run(), options).status(),
      absl::StatusCode::kInternal);
}

TEST_F(ManagerArgumentsTest, AnInitFnThatFailsOnOneRank) {
  auto manager = Manage({.init_fn = [] {
    return WorldRank() == WorldSize() - 1 ? absl::AbortedError("no data")
                                          : absl::OkStatus();
  }});
  EXPECT_THAT(SameError(manager->RestoreOrInitialize().status(),
                        absl::StatusCode::kAborted),
              HasSubstr("no data"));
}

}  // namespace
}  // namespace belay::manager_arguments_test
