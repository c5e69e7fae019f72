// Every fault of a save in the background is the same error on all ranks, and
// leaves the step before as it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/async_saver.h"
#include "core/fault.h"
#include "fault_points.h"
#include "values.h"

namespace belay::async_fault_test {
namespace {

using testing::Ok;
using testing::Values;

class AsyncFaultTest : public testing::CheckpointTest {
 protected:
  static void SetUpTestSuite() { testing::UseMemory(); }

  AsyncFaultTest() {
    values_.AddCut("w", DType::kF32, {16 * size_, 3}, 0, rank_, size_);
    values_.AddWhole("b", DType::kI64, {5});
  }

  // All of a save, also what is done in the background.
  Status SaveAndWait(AsyncSaver& saver, int64_t step,
                     const SaveOptions& options) {
    values_.Fill(static_cast<uint64_t>(step));
    Status status =
        saver.Save(run(), step, values_.MakeState(), options).status();
    if (status.ok()) status = saver.WaitForSnapshot();
    values_.Spoil(static_cast<uint64_t>(step));
    return status.ok() ? saver.Wait().status() : status;
  }

  bool IsWhole(int64_t step) {
    Ok(Restore(comm_, run(), step, values_.MakeState()));
    return values_.CountWrong(static_cast<uint64_t>(step)) == 0;
  }

  // Makes every `stride`-th point of every rank fail once.
  void Sweep(int64_t stride, const SaveOptions& options,
             const AsyncOptions& async = {}) {
    AsyncSaver saver(comm_, async);
    Ok(saver.Save(run(), 1, (values_.Fill(1), values_.MakeState()), options));
    Ok(saver.Wait());
    int64_t step = 2;
    fault::Arm(0);
    EXPECT_EQ(SaveAndWait(saver, step, options), absl::OkStatus());
    const std::vector<int64_t> counts =
        testing::CountOfEachRank(fault::Count());
    fault::Disarm();
    int64_t failed = 0;
    for (int rank = 0; rank < size_; ++rank) {
      for (const int64_t n :
           testing::PointsToTake(counts[rank], testing::StrideOr(stride))) {
        SCOPED_TRACE(absl::StrCat("point ", n, " of rank ", rank));
        ++step;
        const Status status = testing::WithFault(
            rank, n, [&] { return SaveAndWait(saver, step, options); });
        testing::ExpectAgreed(status, rank);
        EXPECT_FALSE(saver.is_pending());
        const bool is_there =
            testing::OnAllRanks(Ok(ListSteps(run())).back() == step);
        // Of a save that has failed nothing is there; what has not is whole.
        EXPECT_EQ(is_there, status.ok());
        failed += status.ok() ? 0 : 1;
        EXPECT_TRUE(IsWhole(status.ok() ? step : 1));
        if (!testing::OnAllRanks(!HasFailure())) return;
      }
    }
    EXPECT_GT(failed, 10);
  }

  Values values_;
};

TEST_F(AsyncFaultTest, EveryFaultIsAgreedAndLeavesTheStepBefore) {
  Sweep(1, {.deadline_seconds = 20});
}

TEST_F(AsyncFaultTest, SoIsEveryFaultOfReadingBack) {
  Sweep(5, {.read_back = true, .deadline_seconds = 20});
}

TEST_F(AsyncFaultTest, SoIsEveryFaultOfCopyingInTheThread) {
  Sweep(2, {.deadline_seconds = 20}, {.snapshot = SnapshotMode::kLazy});
}

TEST_F(AsyncFaultTest, SoIsEveryFaultOfWritingWhileCopyingInTheThread) {
  Sweep(2, {.deadline_seconds = 20},
        {.max_staging_bytes = 100, .snapshot = SnapshotMode::kLazy});
}

}  // namespace
}  // namespace belay::async_fault_test
