// Values that come and go, such as the patches of an adaptive mesh: a restart
// learns first which are stored.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_manager.h"
#include "belay/save_restore.h"
#include "belay/state.h"
#include "values.h"

namespace belay::patches_test {
namespace {

using ::testing::HasSubstr;
using testing::Ok;
using Random = std::mt19937;

// A patch is a small array of one rank, which the number of the patch tells.
struct Patch {
  Shape shape;
  std::vector<double> values;
};

std::string KeyOf(int level, int number) {
  return absl::StrCat("level", level, "/patch", number, "/u");
}

// The patches of a step, on all ranks; each step has others.
std::map<std::string, Shape> PatchesOf(int64_t step) {
  Random random(static_cast<uint32_t>(step));
  std::map<std::string, Shape> patches;
  for (int level = 0; level < 3; ++level) {
    for (int number = 0; number < 9; ++number) {
      if (random() % 3 == 0) continue;
      patches[KeyOf(level, number)] = {static_cast<int64_t>(random() % 5 + 1),
                                       static_cast<int64_t>(random() % 4 + 2)};
    }
  }
  return patches;
}

double ValueOf(const std::string& key, int64_t step, size_t i) {
  return static_cast<double>(step) * 1000 + static_cast<double>(i) +
         static_cast<double>(key.size() + key[5]);
}

// What one rank of an adaptive program holds.
class Mesh {
 public:
  Mesh(int rank, int size) : rank_(rank), size_(size) {}

  // The patches of a step, dealt out anew.
  void Refine(int64_t step) {
    Clear();
    int next = static_cast<int>(step);
    for (const auto& [key, shape] : PatchesOf(step)) {
      if (next++ % size_ == rank_) Make(key, shape);
    }
    for (auto& [key, patch] : patches_) {
      for (size_t i = 0; i < patch.values.size(); ++i) {
        patch.values[i] = ValueOf(key, step, i);
      }
    }
  }

  // Those that are stored, dealt out in another way.
  Status Learn(const StoredStep& stored) {
    Clear();
    learned_ = stored.step;
    int next = 1;
    for (const StepArray& array : stored.arrays) {
      if (!array.key.starts_with("level")) continue;
      if (array.dtype != DType::kF64) {
        return absl::FailedPreconditionError("patches are of numbers");
      }
      if (next++ % size_ == rank_) Make(array.key, array.shape);
    }
    return absl::OkStatus();
  }

  RestoreOptions Learning() {
    return {
        .on_open = [this](const StoredStep& stored) { return Learn(stored); }};
  }

  size_t CountWrong(int64_t step) const {
    size_t wrong = 0;
    for (const auto& [key, patch] : patches_) {
      for (size_t i = 0; i < patch.values.size(); ++i) {
        if (patch.values[i] != ValueOf(key, step, i)) ++wrong;
      }
    }
    return wrong;
  }
  int64_t NumPatches() const { return std::ssize(patches_); }
  int64_t learned() const { return learned_; }

  State state;

 private:
  void Clear() {
    state = {};
    patches_.clear();
  }
  void Make(const std::string& key, const Shape& shape) {
    Patch& patch = patches_[key];
    patch = {shape,
             std::vector<double>(static_cast<size_t>(NumElements(shape)), -1)};
    state.AddPiece(key, shape, WholeBox(shape), patch.values);
  }

  const int rank_;
  const int size_;
  std::map<std::string, Patch> patches_;
  int64_t learned_ = -1;
};

class PatchesTest : public testing::CheckpointTest {
 protected:
  int64_t SumOverRanks(int64_t mine) {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return mine;
  }
  void ExpectPatchesOf(const Mesh& mesh, int64_t step) {
    EXPECT_EQ(mesh.learned(), step);
    EXPECT_EQ(mesh.CountWrong(step), 0);
    EXPECT_EQ(SumOverRanks(mesh.NumPatches()), std::ssize(PatchesOf(step)));
  }
};

TEST_F(PatchesTest, ARestartLearnsWhichAreStored) {
  Mesh mesh(rank_, size_);
  PlanCache cache;
  for (const int64_t step : {1, 2, 3}) {
    mesh.Refine(step);
    Ok(Save(comm_, run(), step, mesh.state, {.cache = &cache}));
  }
  for (const int64_t step : {3, 1, 2}) {
    Mesh found(rank_, size_);
    Ok(Restore(comm_, run(), step, found.state, found.Learning()));
    ExpectPatchesOf(found, step);
  }
  Mesh latest(rank_, size_);
  const auto restored =
      RestoreLatest(comm_, run(), latest.state, latest.Learning());
  ASSERT_TRUE(restored.ok()) << restored.status();
  ExpectPatchesOf(latest, 3);
  Mesh later(rank_, size_);
  const auto chosen = ChooseStep(comm_, run(), 2);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  Ok(Restore(comm_, *chosen, later.state, later.Learning()));
  ExpectPatchesOf(later, 2);
}

TEST_F(PatchesTest, WhereThereIsNothingNobodyIsTold) {
  Mesh mesh(rank_, size_);
  const auto restored =
      RestoreLatest(comm_, run(), mesh.state, mesh.Learning());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_FALSE(restored->has_value());
  EXPECT_EQ(mesh.learned(), -1);
}

// The newest step is damaged: the manager tells of the one before as well.
TEST_F(PatchesTest, AManagerTellsOfEachStepThatItTries) {
  Mesh mesh(rank_, size_);
  {
    auto manager = CheckpointManager::Create(comm_, mesh.state, run(), {});
    ASSERT_TRUE(manager.ok()) << manager.status();
    for (const int64_t step : {4, 5}) {
      mesh.Refine(step);
      Ok(manager->Save(step, {.force = true}));
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) testing::PutFile(StepFile(5, "index.h5"), "damaged");
  MPI_Barrier(MPI_COMM_WORLD);
  Mesh found(rank_, size_);
  auto manager = CheckpointManager::Create(comm_, found.state, run(), {});
  ASSERT_TRUE(manager.ok()) << manager.status();
  const auto restored = manager->RestoreLatest(found.Learning());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->step, 4);
  ExpectPatchesOf(found, 4);
}

TEST_F(PatchesTest, WhatTheProgramFindsIsTheErrorOfAllRanks) {
  Mesh mesh(rank_, size_);
  mesh.Refine(1);
  Ok(Save(comm_, run(), 1, mesh.state));
  const int last = size_ - 1;
  std::vector<double> two(2);
  const auto restore = [&](const RestoreOptions& options) {
    return Restore(comm_, run(), 1, mesh.state, options).status();
  };
  ExpectRefused(restore({.on_open = [&](const StoredStep&) -> Status {
                  if (rank_ != last) return absl::OkStatus();
                  return absl::FailedPreconditionError("no room for patches");
                }}),
                absl::StatusCode::kFailedPrecondition, "no room for patches");
  ExpectRefused(restore({.on_open = [&](const StoredStep&) -> Status {
                  if (rank_ == last) throw std::runtime_error("oh");
                  return absl::OkStatus();
                }}),
                absl::StatusCode::kInternal, "exception: oh");
  ExpectRefused(restore({.on_open = [&](const StoredStep&) -> Status {
                  mesh.state = {};
                  mesh.state.AddReplicated("three", {3}, two);
                  return absl::OkStatus();
                }}),
                absl::StatusCode::kInvalidArgument, "\"three\"");
  // It says nothing of the files, nor changes what ranks have agreed on.
  ExpectRefused(restore({.on_open = [&](const StoredStep&) -> Status {
                  return absl::DataLossError("not mine");
                }}),
                absl::StatusCode::kFailedPrecondition, "not mine");
  RestoreOptions changed;
  changed.on_open = [&](const StoredStep& stored) {
    changed.checksums = rank_ % 2 == 0;
    changed.allow_dtype_cast = rank_ % 2 == 0;
    return mesh.Learn(stored);
  };
  EXPECT_EQ(restore(changed), absl::OkStatus());
  // A State that was wrong before is made anew.
  EXPECT_EQ(restore(mesh.Learning()), absl::OkStatus());
  ExpectPatchesOf(mesh, 1);
  if (size_ > 1) {
    RestoreOptions some;
    if (rank_ == last) some = mesh.Learning();
    ExpectRefused(restore(some), absl::StatusCode::kInvalidArgument,
                  "the option on_open");
  }
  std::vector<double> x(3);
  Checkpoint objects(comm_, {{"x", x}});
  ExpectRefused(objects.Restore(StepFile(1, ""), mesh.Learning()).status(),
                absl::StatusCode::kInvalidArgument,
                "the option on_open is for the values of a State");
}

}  // namespace
}  // namespace belay::patches_test
