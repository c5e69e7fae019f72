// Paths: relative ones, those of std::filesystem, and directories that move.
// What TensorFlow's tests of its state file and of path objects assert.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "belay/checkpoint_reader.h"
#include "manager_testing.h"

namespace belay::paths_test {
namespace {

namespace fs = std::filesystem;
using testing::ManagerTest;
using testing::OnRank0;
using testing::Steps;

double Now() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class PathsTest : public ManagerTest {
 protected:
  // Every rank works in the scratch directory.
  PathsTest() : before_(fs::current_path()) {
    fs::current_path(scratch_.path());
  }
  ~PathsTest() override { fs::current_path(before_); }

  // A manager with the clock of the system.
  StatusOr<CheckpointManager> ManageAt(const std::string& dir,
                                       const ManagerOptions& options = {}) {
    return CheckpointManager::Create(program_.checkpoint(), dir, options);
  }

  const fs::path before_;
};

// TensorFlow's testRelativePath: after three saves the newest is restored.
TEST_F(PathsTest, ARelativeDirectory) {
  Checkpoint& checkpoint = program_.checkpoint();
  for (int64_t value = 0; value < 3; ++value) {
    program_.Set(value);
    const auto saved = checkpoint.Save("train");
    ASSERT_EQ(saved.status(), absl::OkStatus());
    EXPECT_EQ(saved->path,
              "train/" + fs::path(StepDir(value + 1)).filename().string());
  }
  program_.Set(9);
  ASSERT_EQ(checkpoint.Restore("train").status(), absl::OkStatus());
  EXPECT_TRUE(program_.Is(2));
  ASSERT_EQ(checkpoint.Restore("./train/step_00000001").status(),
            absl::OkStatus());
  EXPECT_TRUE(program_.Is(0));
  EXPECT_EQ(ListSteps("train").value(), Steps({1, 2, 3}));
}

// testUpdateCheckpointStateSaveRelativePaths and
// testCheckPointCompletesRelativePaths: what was written by a relative path is
// found by an absolute one, and a directory may be moved.
TEST_F(PathsTest, ADirectoryThatIsMoved) {
  {
    auto manager = ManageAt("train", {.retention = {.max_to_keep = 2}});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    SaveAll(*manager, 1, 4);
  }
  OnRank0([] {
    fs::create_directory("archive");
    fs::rename("train", "archive/moved");
  });
  auto manager = ManageAt(scratch_.File("archive/moved"),
                          {.retention = {.max_to_keep = 2}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_EQ(Active(*manager), Steps({2, 3}));
  EXPECT_EQ(manager->StepPath(3), scratch_.File("archive/moved/step_00000003"));
  ASSERT_EQ(manager->RestoreLatest().status(), absl::OkStatus());
  EXPECT_TRUE(program_.Is(3));
  EXPECT_EQ(SaveStep(*manager, 4).status(), absl::OkStatus());
  EXPECT_EQ(manager->Steps(), Steps({3, 4}));
}

// test_save_restore_fspath, test_read_write_fspath, testFSPath,
// testCheckpointManagerFSpathDirectory, testLatestCheckpointFSpathDirectory.
TEST_F(PathsTest, PathsOfTheStandardLibrary) {
  const fs::path dir = fs::path(scratch_.path()) / "train";
  Checkpoint& checkpoint = program_.checkpoint();
  program_.Set(5);
  ASSERT_EQ(checkpoint.Save(dir).status(), absl::OkStatus());
  ASSERT_EQ(checkpoint.SaveAs(dir / "own").status(), absl::OkStatus());
  program_.Set(0);
  ASSERT_EQ(checkpoint.Restore(dir).status(), absl::OkStatus());
  EXPECT_TRUE(program_.Is(5));
  program_.Set(0);
  ASSERT_EQ(checkpoint.Restore(dir / "own").status(), absl::OkStatus());
  EXPECT_TRUE(program_.Is(5));
  EXPECT_EQ(ResolveStep(dir).value(), (dir / "step_00000001").string());
  EXPECT_EQ(ListSteps(dir).value(), Steps({1}));
  auto manager =
      CheckpointManager::Create(program_.checkpoint(), dir / "managed");
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_EQ(SaveStep(*manager, 7).status(), absl::OkStatus());
  EXPECT_EQ(manager->StepPath(7), (dir / "managed/step_00000007").string());
}

// testCheckpointExists, testGetCheckpointMtimes and testRemoveCheckpoint, each
// of a shared file and of a file per rank.
TEST_F(PathsTest, AStepIsThereHasATimeAndCanBeRemoved) {
  for (const FileLayout layout : {FileLayout::kShared, FileLayout::kPerTask}) {
    auto manager = ManageAt("train", {.save = {.file_layout = layout}});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    const std::string path = manager->StepPath(3);
    EXPECT_EQ(ResolveStep(path).status().code(), absl::StatusCode::kNotFound);
    MPI_Barrier(MPI_COMM_WORLD);
    const double before = Now();
    EXPECT_EQ(SaveStep(*manager, 3).status(), absl::OkStatus());
    const double after = Now();
    EXPECT_EQ(ResolveStep(path).value_or(""), path);
    ASSERT_EQ(manager->StepRecords().size(), 1u);
    // Of rank 0's clock, which is that of this machine.
    EXPECT_GE(manager->StepRecords()[0].time, before - 1);
    EXPECT_LE(manager->StepRecords()[0].time, after + 1);
    EXPECT_EQ(manager->Delete(3), absl::OkStatus());
    EXPECT_EQ(ResolveStep(path).status().code(), absl::StatusCode::kNotFound);
    EXPECT_FALSE(fs::exists(path));
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

}  // namespace
}  // namespace belay::paths_test
