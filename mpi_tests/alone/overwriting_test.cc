// Readers beside a writer that overwrites the newest step: none is told that
// there is no step. Rank 0 writes, the others read.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "mpi_test.h"

namespace belay::testing::overwriting_test {
namespace {

class OverwritingTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(alone_.Close().ok());
    EXPECT_TRUE(comm_.Close().ok());
  }

  // Saves step 7 in a directory.
  void SaveOne(const std::string& dir) {
    std::vector<double> values(100, 1);
    State state;
    state.Add("values", values);
    EXPECT_EQ(Save(alone_, dir, 7, state, {.overwrite = true, .durable = false})
                  .status(),
              absl::OkStatus());
  }

  // A step of each of two series.
  void SaveBoth() {
    if (WorldRank() == 0) {
      SaveOne(run_);
      SaveOne(scratch_.File("other"));
      std::filesystem::rename(StepPath(scratch_.File("other"), 7),
                              StepPath(run_, 7, "other"));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Whether the error tells that another save has replaced the step, which is
  // no lie.
  static bool IsReplaced(const Status& status) {
    return absl::IsFailedPrecondition(status);
  }

  // Overwrites on rank 0 while all others do this; returns how often.
  template <typename F>
  int64_t Beside(const F& read) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(8);
    int64_t count = 0;
    while (std::chrono::steady_clock::now() < end) {
      if (WorldRank() == 0) {
        SaveOne(run_);
      } else {
        read();
      }
      ++count;
    }
    MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT64_T, MPI_MAX,
                  MPI_COMM_WORLD);
    return count;
  }

  ScratchDir scratch_;
  const std::string run_ = scratch_.File("run");
  Comm comm_ = Ok(Comm::Duplicate(MPI_COMM_WORLD));
  Comm alone_ = Ok(Comm::Duplicate(MPI_COMM_SELF));
};

TEST_F(OverwritingTest, NobodyIsToldThatThereIsNone) {
  SaveBoth();
  const std::string step = StepPath(run_, 7);
  const int64_t reads = Beside([&] {
    const StatusOr<std::string> found = ResolveStep(run_);
    EXPECT_EQ(found.status(), absl::OkStatus());
    EXPECT_EQ(found.value_or(""), step);
    const StatusOr<std::vector<int64_t>> others = ListSteps(run_, "other");
    EXPECT_EQ(others.value_or(std::vector<int64_t>()),
              std::vector<int64_t>({7}));
  });
  if (WorldSize() > 1) {
    EXPECT_GT(reads, 1000);
  }
}

TEST_F(OverwritingTest, NobodyBeginsAnew) {
  SaveBoth();
  std::vector<double> values(100);
  State state;
  state.Add("values", values);
  Beside([&] {
    const auto restored = RestoreLatest(alone_, run_, state);
    if (!restored.ok()) {
      EXPECT_TRUE(IsReplaced(restored.status())) << restored.status();
      return;
    }
    EXPECT_TRUE(restored->has_value());
  });
}

}  // namespace
}  // namespace belay::testing::overwriting_test
