// Fault points of each operation of a manager fail once, on the first and on
// the last rank: all ranks return the same, nobody waits, and the next
// manager finds every step that was committed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "belay/checkpoint_manager.h"
#include "core/fault.h"
#include "manager_testing.h"

namespace belay {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using testing::GatherStatus;
using testing::ManagerTest;
using testing::OnRank0;
using testing::Steps;
using testing::WorldRank;
using testing::WorldSize;

class ManagerSweepTest : public ManagerTest {
 protected:
  using Operation = std::function<Status(std::optional<CheckpointManager>&)>;
  using Check =
      std::function<void(std::optional<CheckpointManager>&, const Status&)>;

  // Runs `operation` on steps 1 and 2 of a manager that keeps two, with one
  // fault after the other, and then `check` with what it returned. Returns the
  // number of fault points on rank 0.
  int64_t Sweep(const Operation& operation, const Check& check) {
    int64_t on_root = 0;
    for (const int victim : {WorldSize() - 1, 0}) {
      on_root = Turn(operation, check, victim, 0);
      for (int64_t point = 1; point <= on_root; ++point) {
        if (IsSwept(point, on_root)) Turn(operation, check, victim, point);
      }
    }
    return on_root;
  }

  // Those of the manager, which are the first and the last, and some of those
  // of the save or the restore, which has a sweep of its own.
  static bool IsSwept(int64_t point, int64_t points) {
    return point <= 30 || point > points - 40 || point % 10 == 0;
  }

  // Returns how many fault points `victim` passed.
  int64_t Turn(const Operation& operation, const Check& check, int victim,
               int64_t point) {
    std::optional<CheckpointManager> manager = *Manage(
        {.tolerated_failures = tolerated_, .retention = {.max_to_keep = 2}});
    for (const int64_t step : {1, 2}) {
      EXPECT_EQ(SaveStep(*manager, step).status(), absl::OkStatus());
    }
    if (WorldRank() == victim) fault::Arm(point);
    const Status status = operation(manager);
    int64_t points = fault::Count();
    fault::Disarm();
    MPI_Bcast(&points, 1, MPI_INT64_T, victim, MPI_COMM_WORLD);
    EXPECT_THAT(GatherStatus(status), Each(status.ToString())) << point;
    EXPECT_TRUE(point > 0 || status.ok()) << status;
    check(manager, status);
    manager.reset();
    OnRank0([&] { fs::remove_all(Run()); });
    return points;
  }

  int64_t tolerated_ = 0;

  // Expects that a new manager manages what is on disk, and restores `newest`.
  void ExpectNewest(std::optional<CheckpointManager>& manager, int64_t newest) {
    manager.reset();
    manager = *Manage({.retention = {.max_to_keep = 2}});
    EXPECT_EQ(manager->RestoreLatest()->step, newest);
    EXPECT_TRUE(program_.Is(newest));
    EXPECT_EQ(Active(*manager), OnDisk());
  }
};

TEST_F(ManagerSweepTest, Save) {
  const int64_t faults = Sweep(
      [&](std::optional<CheckpointManager>& manager) {
        return SaveStep(*manager, 3).status();
      },
      [&](std::optional<CheckpointManager>& manager, const Status& status) {
        const Steps disk = OnDisk();
        if (!status.ok()) {
          EXPECT_EQ(disk, Steps({1, 2}));
        }
        EXPECT_EQ(disk.back(), status.ok() ? 3 : 2);
        EXPECT_EQ(manager->Steps(), disk);
        ExpectNewest(manager, status.ok() ? 3 : 2);
      });
  EXPECT_GT(faults, 50);
}

// Only errors of what is no call of the file system are still returned.
TEST_F(ManagerSweepTest, ToleratedSave) {
  tolerated_ = 1;
  std::optional<ManagedSave> saved;
  int64_t missed = 0;
  Sweep(
      [&](std::optional<CheckpointManager>& manager) {
        const StatusOr<ManagedSave> result = SaveStep(*manager, 3);
        saved.reset();
        if (result.ok()) saved = *result;
        return result.status();
      },
      [&](std::optional<CheckpointManager>& manager, const Status&) {
        const Status failure = saved ? saved->failure.value_or(absl::OkStatus())
                                     : absl::OkStatus();
        EXPECT_THAT(GatherStatus(failure), Each(failure.ToString()));
        const bool is_saved = saved && saved->outcome == SaveOutcome::kSaved;
        EXPECT_EQ(OnDisk().back(), is_saved ? 3 : 2) << failure;
        EXPECT_EQ(manager->Steps(), OnDisk());
        if (!failure.ok()) ++missed;
        const auto next = SaveStep(*manager, 4);
        EXPECT_EQ(next.status(), absl::OkStatus()) << failure;
        EXPECT_EQ(next->outcome, SaveOutcome::kSaved) << failure;
        ExpectNewest(manager, 4);
      });
  EXPECT_GT(missed, 50);
}

TEST_F(ManagerSweepTest, Create) {
  const int64_t faults = Sweep(
      [&](std::optional<CheckpointManager>& manager) {
        manager.reset();
        auto created = Manage({.retention = {.max_to_keep = 2}});
        if (created.ok()) manager = *std::move(created);
        return created.status();
      },
      [&](std::optional<CheckpointManager>& manager, const Status&) {
        EXPECT_EQ(OnDisk(), Steps({1, 2}));
        ExpectNewest(manager, 2);
      });
  EXPECT_GT(faults, 10);
}

// An error of the system is no reason to take an older step.
TEST_F(ManagerSweepTest, Restore) {
  const int64_t faults = Sweep(
      [&](std::optional<CheckpointManager>& manager) {
        program_.Set(0);
        const auto restored = manager->RestoreLatest();
        if (restored.ok()) {
          EXPECT_EQ(restored->step, 2);
        }
        return restored.status();
      },
      [&](std::optional<CheckpointManager>& manager, const Status& status) {
        if (status.ok()) {
          EXPECT_TRUE(program_.Is(2));
        }
        ExpectNewest(manager, 2);
      });
  EXPECT_GT(faults, 20);
}

TEST_F(ManagerSweepTest, Delete) {
  const int64_t faults = Sweep(
      [&](std::optional<CheckpointManager>& manager) {
        return manager->Delete(1);
      },
      [&](std::optional<CheckpointManager>& manager, const Status& status) {
        if (status.ok()) {
          EXPECT_EQ(OnDisk(), Steps({2}));
        }
        ExpectNewest(manager, 2);
      });
  EXPECT_GT(faults, 10);
}

}  // namespace
}  // namespace belay
