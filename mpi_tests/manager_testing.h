// What tests of managers share.

#ifndef BELAY_MPI_TESTS_MANAGER_TESTING_H_
#define BELAY_MPI_TESTS_MANAGER_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belay/checkpoint_manager.h"
#include "belay/save_restore.h"
#include "file_bytes.h"
#include "manager_program.h"
#include "mpi_test.h"
#include "small_state.h"

namespace belay::testing {

using Steps = std::vector<int64_t>;

// Runs `work` on rank 0 while all others wait. Collective.
inline void OnRank0(const std::function<void()>& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (WorldRank() == 0) work();
  MPI_Barrier(MPI_COMM_WORLD);
}

// Each test has a directory, a program and a clock that it moves.
class ManagerTest : public ::testing::Test {
 protected:
  std::string Run() const { return scratch_.File("run"); }
  std::string StepDir(int64_t step) const { return StepPath(Run(), step); }
  std::string File(const std::string& name) const {
    return scratch_.File("run/" + name);
  }

  // A manager with the test's clock; ends the one from before. Collective.
  StatusOr<CheckpointManager> Manage(ManagerOptions options = {}) {
    options.clock = [this] { return time_; };
    options.save.durable = false;
    if (options.save.deadline_seconds == SaveOptions{}.deadline_seconds) {
      options.save.deadline_seconds = 60;
    }
    return CheckpointManager::Create(program_.checkpoint(), Run(), options);
  }

  // Saves a step whose values are its number. Collective.
  StatusOr<ManagedSave> SaveStep(CheckpointManager& manager, int64_t step,
                                 const ManagedSaveOptions& options = {}) {
    program_.Set(step);
    return manager.Save(step, options);
  }

  // The same for the next number, which is returned; -1 for an error.
  static int64_t SaveNext(CheckpointManager& manager) {
    const StatusOr<ManagedSave> saved = manager.Save();
    EXPECT_EQ(saved.status(), absl::OkStatus());
    return saved.ok() && saved->outcome == SaveOutcome::kSaved
               ? saved->result.step
               : -1;
  }

  // The steps on disk. Collective.
  Steps OnDisk() const {
    MPI_Barrier(MPI_COMM_WORLD);
    const StatusOr<Steps> steps = ListSteps(Run());
    MPI_Barrier(MPI_COMM_WORLD);
    return steps.value_or(Steps{-1});
  }

  // Saves the steps [first, end).
  void SaveAll(CheckpointManager& manager, int64_t first, int64_t end) {
    for (int64_t step = first; step < end; ++step) {
      EXPECT_EQ(SaveStep(manager, step).status(), absl::OkStatus());
    }
  }

  // Expects the same error on all ranks, and returns its message.
  static std::string SameError(const Status& status, absl::StatusCode code) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(GatherStatus(status), ::testing::Each(status.ToString()));
    return std::string(status.message());
  }

  // What stands at the end of an error of rank 0.
  static std::string OfRank0() {
    return " [rank 0 of " + std::to_string(WorldSize()) + "]";
  }

  static Steps Active(const CheckpointManager& manager) {
    Steps active;
    for (const StepRecord& record : manager.StepRecords()) {
      active.push_back(record.step);
    }
    return active;
  }

  std::string Content(const std::string& name) const {
    return FileBytes(File(name));
  }

  // Collective.
  void Put(const std::string& name, const std::string& content) const {
    OnRank0([&] { PutFile(File(name), content); });
  }

  ScratchDir scratch_;
  Program program_;
  double time_ = 1000;
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_MANAGER_TESTING_H_
