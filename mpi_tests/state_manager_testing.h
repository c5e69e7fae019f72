// What tests of managers of a State share.

#ifndef BELAY_MPI_TESTS_STATE_MANAGER_TESTING_H_
#define BELAY_MPI_TESTS_STATE_MANAGER_TESTING_H_

#include <gtest/gtest.h>

#include <utility>

#include "belay/checkpoint_manager.h"
#include "belay/state.h"
#include "manager_testing.h"

namespace belay::testing {

class StateManagerTest : public ManagerTest {
 protected:
  // Of the values of the program, or of others. Collective.
  StatusOr<CheckpointManager> Manage(ManagerOptions options = {}) {
    return ManageOf(program_.state(), std::move(options));
  }
  StatusOr<CheckpointManager> ManageOf(const State& state,
                                       ManagerOptions options = {}) {
    options.clock = [this] { return time_; };
    options.save.durable = false;
    options.save.deadline_seconds = 60;
    return CheckpointManager::Create(program_.comm(), state, Run(), options);
  }

  // A manager of the steps 1 to 4.
  CheckpointManager Begin(const ManagerOptions& options) {
    StatusOr<CheckpointManager> manager = Manage(options);
    EXPECT_EQ(manager.status(), absl::OkStatus());
    SaveAll(*manager, 1, 5);
    return *std::move(manager);
  }

  // What a restore into `state` says. Collective.
  Status RestoreInto(const State& state, RestoreMatch match,
                     const RestoreOptions& options = {}) {
    auto manager = ManageOf(state, {.read_only = true, .restore_match = match});
    EXPECT_EQ(manager.status(), absl::OkStatus());
    return manager->RestoreOrInitialize(options).status();
  }

  bool is_last() const { return WorldRank() == WorldSize() - 1; }
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_STATE_MANAGER_TESTING_H_
