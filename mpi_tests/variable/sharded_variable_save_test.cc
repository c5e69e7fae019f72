// Saving sharded variables with any number of components and restoring them
// into any other, also into variables that are made after the restore was asked
// for.

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "core/fault.h"
#include "variables.h"

namespace belay::sharded_variable_save_test {
namespace {

using absl::StatusCode;
using testing::Iota;
using testing::SameTensor;

Tensor Negative(const Shape& shape) {
  Tensor tensor(DType::kI32, shape);
  for (int32_t& value : tensor.values<int32_t>()) value = -1;
  return tensor;
}

class VariableSaveTest : public testing::VariableTest {
 protected:
  std::string run() const { return dir_.File("run"); }

  // The even cut into that many components, on ranks in turns.
  ShardedVariable Even(const Tensor& dense, int64_t components) {
    const auto boxes = PartitionBoxes(dense.shape(), {components, 1});
    EXPECT_TRUE(boxes.ok()) << boxes.status();
    std::vector<int64_t> rows;
    for (const Box& box : *boxes) rows.push_back(box.shape[0]);
    return Cut(dense, rows);
  }

  Status SaveVariable(const Comm& comm, ShardedVariable& variable, int64_t step,
                      bool overwrite = false) {
    State state;
    state.AddShardedVariable("v", variable);
    return Save(comm, run(), step, state,
                {.overwrite = overwrite, .durable = false})
        .status();
  }

  Status RestoreVariable(const Comm& comm, ShardedVariable& variable,
                         int64_t step) {
    State state;
    state.AddShardedVariable("v", variable);
    return Restore(comm, run(), step, state).status();
  }

  Status RestoreVariable(const ChosenStep& chosen, ShardedVariable& variable) {
    State state;
    state.AddShardedVariable("v", variable);
    return Restore(comm_, chosen, state).status();
  }

  // Saves in so many components and restores into so many others.
  void ExpectMoves(int64_t from, int64_t to) {
    SCOPED_TRACE(absl::StrCat(from, " to ", to));
    const Tensor dense = Iota({10, 2});
    ShardedVariable saved = Even(dense, from);
    EXPECT_EQ(SaveVariable(comm_, saved, step_), absl::OkStatus());
    ShardedVariable restored = Even(Negative({10, 2}), to);
    EXPECT_EQ(RestoreVariable(comm_, restored, step_), absl::OkStatus());
    ExpectHolds(restored, dense);
    ++step_;
  }

  // Asks for the restore before the variable is there.
  void ExpectMovesLater(int64_t from, int64_t to) {
    const Tensor dense = Iota({10, 2});
    ShardedVariable saved = Even(dense, from);
    EXPECT_EQ(SaveVariable(comm_, saved, step_), absl::OkStatus());
    const auto chosen = ChooseStep(comm_, run(), kLatestStep);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->step(), step_);
    ShardedVariable restored = Even(Negative({10, 2}), to);
    EXPECT_EQ(RestoreVariable(*chosen, restored), absl::OkStatus());
    ExpectHolds(restored, dense);
  }

  testing::ScratchDir dir_;
  int64_t step_ = 1;
};

// test_save_restore.
TEST_F(VariableSaveTest, SaveRestore) {
  const Tensor dense = Iota({10, 2});
  ShardedVariable v = Even(dense, 4);
  EXPECT_EQ(SaveVariable(comm_, v, 1), absl::OkStatus());
  EXPECT_EQ(Assign(comm_, v, UpdateOp::kUpdate, Negative({10, 2})),
            absl::OkStatus());
  EXPECT_EQ(RestoreVariable(comm_, v, 1), absl::OkStatus());
  ExpectHolds(v, dense);
}

// test_save_restore_different_partitions.
TEST_F(VariableSaveTest, SaveRestoreDifferentPartitions) {
  ExpectMoves(4, 1);
  ExpectMoves(1, 4);
}

// test_save_restore_4_to_2_partitions.
TEST_F(VariableSaveTest, SaveRestore4To2Partitions) { ExpectMoves(4, 2); }

// testSaveAndLoadSingleVariable.
TEST_F(VariableSaveTest, SaveAndLoadSingleVariable) {
  ExpectMoves(2, 2);
  ExpectMoves(2, 3);
  ExpectMoves(3, 2);
  ExpectMoves(2, 1);
  ExpectMoves(1, 1);
}

// test_delayed_restore.
TEST_F(VariableSaveTest, DelayedRestore) { ExpectMovesLater(4, 4); }

// test_delayed_restore_4_to_2_partitions.
TEST_F(VariableSaveTest, DelayedRestore4To2Partitions) {
  ExpectMovesLater(4, 2);
}

// test_tf_module: one entry of the checkpoint, whatever the components.
TEST_F(VariableSaveTest, IsOneArray) {
  ShardedVariable v = Even(Iota({10, 2}), 4);
  State state;
  state.AddShardedVariable("v", v);
  EXPECT_EQ(testing::SumOverRanks(std::ssize(state.shards())), 4);
  const auto saved = Save(comm_, run(), 1, state, {.durable = false});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->num_arrays, 1);
  // A plain array of the key is the same thing, in both directions.
  Tensor plain = Negative({10, 2});
  State whole;
  whole.AddReplicated("v", {10, 2}, AtAddress(plain.values<int32_t>().data()));
  const auto restored = Restore(comm_, run(), 1, whole);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_TRUE(SameTensor(plain, Iota({10, 2})));
  for (int32_t& value : plain.values<int32_t>()) value *= 3;
  EXPECT_TRUE(Save(comm_, run(), 2, whole, {.durable = false}).ok());
  EXPECT_EQ(RestoreVariable(comm_, v, 2), absl::OkStatus());
  ExpectHolds(v, plain);
}

// Any components, also empty ones, and any owners, on other numbers of ranks.
TEST_F(VariableSaveTest, RandomCutsOnOtherRankCounts) {
  std::mt19937 random(5);
  for (int64_t step = 0; step < 12; ++step) {
    const Shape shape = {static_cast<int64_t>(random() % 9), 3};
    const Tensor dense = Iota(shape);
    const int few = 1 + static_cast<int>(random() % size_);
    Comm first = *comm_.Split(rank_ < few ? 0 : -1);
    // On the first ranks one after the other, then on all.
    std::vector<int64_t> rows(3, 0);
    for (int64_t row = 0; row < shape[0]; ++row) ++rows[random() % 3];
    std::vector<int> owners;
    for (int i = 0; i < 3; ++i)
      owners.push_back(static_cast<int>(random() % few));
    ShardedVariable on_few = Cut(dense, rows, owners);
    ShardedVariable on_all = RandomCut(random, Negative(shape));
    if (first.size() > 0) {
      EXPECT_EQ(SaveVariable(first, on_few, step), absl::OkStatus());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(RestoreVariable(comm_, on_all, step), absl::OkStatus());
    ExpectHolds(on_all, dense);
    EXPECT_EQ(SaveVariable(comm_, on_all, step + 100), absl::OkStatus());
    ShardedVariable again = Cut(Negative(shape), rows, owners);
    if (first.size() > 0) {
      EXPECT_EQ(RestoreVariable(first, again, step + 100), absl::OkStatus());
    }
    ExpectHolds(again, dense);
    EXPECT_EQ(first.Close(), absl::OkStatus());
  }
}

TEST_F(VariableSaveTest, BadStates) {
  ShardedVariable none;
  ExpectError(SaveVariable(comm_, none, 1), StatusCode::kInvalidArgument,
              "add \"v\": the variable was not made");
  ShardedVariable v = Even(Iota({4, 2}), 2);
  EXPECT_EQ(SaveVariable(comm_, v, 1), absl::OkStatus());
  ShardedVariable longer = Even(Negative({5, 2}), 2);
  ExpectError(RestoreVariable(comm_, longer, 1),
              StatusCode::kFailedPrecondition, "\"v\"");
}

TEST_F(VariableSaveTest, LaterCommitsDoNotChangeWhatIsPending) {
  const Tensor old = Iota({6, 2});
  ShardedVariable v = Even(old, 3);
  EXPECT_EQ(SaveVariable(comm_, v, 7), absl::OkStatus());
  const auto chosen = ChooseStep(comm_, run(), kLatestStep);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(Assign(comm_, v, UpdateOp::kUpdate, Negative({6, 2})),
            absl::OkStatus());
  EXPECT_EQ(SaveVariable(comm_, v, 8), absl::OkStatus());
  // Several times, as variables come into being.
  for (int64_t components : {1, 2, 4}) {
    ShardedVariable late = Even(Negative({6, 2}), components);
    EXPECT_EQ(RestoreVariable(*chosen, late), absl::OkStatus());
    ExpectHolds(late, old);
  }
  // The step itself is saved anew, with the same structure.
  EXPECT_EQ(SaveVariable(comm_, v, 7, /*overwrite=*/true), absl::OkStatus());
  ShardedVariable late = Even(old, 2);
  ExpectError(RestoreVariable(*chosen, late), StatusCode::kFailedPrecondition,
              "step_00000007\": another save has replaced the step");
  ExpectHolds(late, old);
}

TEST_F(VariableSaveTest, WhatCannotBePending) {
  const auto later = [&](const std::string& dir, std::optional<int64_t> step) {
    return ChooseStep(comm_, dir, step).status();
  };
  ShardedVariable v = Even(Iota({6, 2}), 3);
  ExpectError(later(run(), kLatestStep), StatusCode::kNotFound,
              "there is no such directory");
  EXPECT_EQ(SaveVariable(comm_, v, 1), absl::OkStatus());
  ExpectError(later(run(), 2), StatusCode::kNotFound, "no such step");
  ExpectError(later(run(), -5), StatusCode::kInvalidArgument, "found -5");
  ExpectError(RestoreVariable(ChosenStep(), v), StatusCode::kFailedPrecondition,
              "no step was chosen");
  auto chosen = ChooseStep(comm_, run(), 1);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  if (size_ > 1) {
    ExpectError(
        later(run(), rank_ == 1 ? std::optional<int64_t>(1) : kLatestStep),
        StatusCode::kInvalidArgument, "differs between ranks: rank 1");
    // The same step, saved once more.
    EXPECT_EQ(SaveVariable(comm_, v, 1, /*overwrite=*/true), absl::OkStatus());
    const auto other = ChooseStep(comm_, run(), 1);
    ASSERT_TRUE(other.ok()) << other.status();
    ExpectError(RestoreVariable(rank_ == 1 ? *other : *chosen, v),
                StatusCode::kInvalidArgument, "differs between ranks: rank 1");
    chosen = other;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) {
    std::filesystem::remove(run() + "/step_00000001/index.h5");
  }
  ExpectError(RestoreVariable(*chosen, v), StatusCode::kNotFound,
              "the step has no index.h5");
}

TEST_F(VariableSaveTest, EveryFaultOfChoosingAStepIsAgreed) {
  ShardedVariable v = Even(Iota({6, 2}), 3);
  EXPECT_EQ(SaveVariable(comm_, v, 1), absl::OkStatus());
  fault::Arm(0);
  EXPECT_TRUE(ChooseStep(comm_, run(), 1).ok());
  const int64_t points = fault::Count();
  for (int rank = 0; rank < size_; ++rank) {
    int64_t of_rank = points;
    MPI_Bcast(&of_rank, 1, MPI_INT64_T, rank, MPI_COMM_WORLD);
    for (int64_t point = 1; point <= of_rank; ++point) {
      fault::Arm(rank_ == rank ? point : 0);
      const Status status = ChooseStep(comm_, run(), 1).status();
      fault::Disarm();
      ExpectError(status, status.code(), "injected fault");
    }
  }
}

}  // namespace
}  // namespace belay::sharded_variable_save_test
