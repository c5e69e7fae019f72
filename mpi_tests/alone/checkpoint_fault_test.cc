// Makes every fault point of Checkpoint fail on every rank, one at a time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "belay/checkpoint.h"
#include "fault_points.h"
#include "thing.h"
#include "values.h"

namespace belay::testing {
namespace {

// Ranks hold different objects, one of them by two paths.
class CheckpointFaultTest : public CheckpointTest {
 protected:
  static void SetUpTestSuite() { UseMemory(); }

  CheckpointFaultTest() {
    if (rank_ == 0) root_.children.emplace_back("first", shared_);
    holder_.children.emplace_back("shared", shared_);
    root_.children.emplace_back("holder", holder_);
    root_.children.emplace_back("stage" + std::to_string(rank_), own_);
  }

  void Fill(float base) {
    shared_.assign(5, base);
    own_.assign(3 + rank_, base + 1 + static_cast<float>(rank_));
  }
  bool HasValues(float base) const {
    return shared_ == std::vector<float>(5, base) &&
           own_ == std::vector<float>(3 + rank_,
                                      base + 1 + static_cast<float>(rank_));
  }

  // Every `stride`-th point of every rank.
  void Sweep(int64_t stride, const std::function<Status()>& operation,
             const std::function<void(const Status&)>& check) {
    fault::Arm(0);
    EXPECT_EQ(operation(), absl::OkStatus());
    const std::vector<int64_t> counts = CountOfEachRank(fault::Count());
    fault::Disarm();
    check(absl::OkStatus());
    for (int rank = 0; rank < size_; ++rank) {
      for (const int64_t n : PointsToTake(counts[rank], StrideOr(stride))) {
        SCOPED_TRACE(absl::StrCat("point ", n, " of rank ", rank));
        const Status status = WithFault(rank, n, operation);
        ExpectAgreed(status, rank);
        check(status);
        if (!OnAllRanks(!HasFailure())) return;
      }
    }
  }

  std::vector<float> shared_, own_;
  Thing holder_, root_;
};

TEST_F(CheckpointFaultTest, EverySaveFailsEverywhereOrNowhere) {
  Fill(1);
  Checkpoint checkpoint(comm_, root_);
  ASSERT_EQ(checkpoint.Save(run(), {.durable = false}).status(),
            absl::OkStatus());
  int64_t saved = 1;
  float value = 1;
  bool is_new = false;
  Sweep(
      3,
      [&] {
        // Every other time the structure is another one.
        Fill(++value);
        if (is_new) own_.push_back(0);
        is_new = !is_new;
        return checkpoint.Save(run(), {.deadline_seconds = 20}).status();
      },
      [&](const Status& status) {
        if (status.ok()) ++saved;
        EXPECT_EQ(checkpoint.save_counter(), saved);
        MPI_Barrier(MPI_COMM_WORLD);
        EXPECT_EQ(Ok(ListSteps(run())).back(), saved);
        MPI_Barrier(MPI_COMM_WORLD);
      });
  Fill(50);
  EXPECT_EQ(Ok(checkpoint.Save(run())).step, saved + 1);
  Fill(0);
  EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_TRUE(HasValues(50));
}

TEST_F(CheckpointFaultTest, EveryRestoreFailsEverywhere) {
  Fill(1);
  Checkpoint checkpoint(comm_, root_);
  ASSERT_EQ(checkpoint.Save(run()).status(), absl::OkStatus());
  int64_t failed = 0;
  Sweep(
      1,
      [&] {
        return checkpoint.Restore(run(), {.deadline_seconds = 20}).status();
      },
      [&](const Status& status) {
        failed += status.ok() ? 0 : 1;
        Fill(0);
        EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(),
                  absl::OkStatus());
        EXPECT_TRUE(HasValues(1));
      });
  EXPECT_GT(failed, 30);
}

TEST_F(CheckpointFaultTest, EveryDeferredRestoreFailsEverywhere) {
  Fill(1);
  ASSERT_EQ(Checkpoint(comm_, root_).Save(run()).status(), absl::OkStatus());
  int64_t failed = 0;
  std::unique_ptr<Checkpoint> later;
  Thing late;
  const auto start = [&] {
    late.children.clear();
    later = std::make_unique<Checkpoint>(comm_, late);
    Ok(later->Restore(run()));
    late.children = root_.children;
    Fill(0);
  };
  start();
  Sweep(
      1,
      [&] { return later->RestoreDeferred({.deadline_seconds = 20}).status(); },
      [&](const Status& status) {
        failed += status.ok() ? 0 : 1;
        // What failed is still pending.
        EXPECT_EQ(Ok(later->RestoreDeferred()).AssertConsumed(),
                  absl::OkStatus());
        EXPECT_TRUE(HasValues(1));
        start();
      });
  EXPECT_GT(failed, 30);
}

}  // namespace
}  // namespace belay::testing
