// Snapshots that the thread takes while the program goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "belay/async_saver.h"
#include "belay/checkpoint.h"
#include "values.h"

namespace belay::lazy_snapshot_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;
using testing::Values;

constexpr AsyncOptions kLazy{.snapshot = SnapshotMode::kLazy};

class LazySnapshotTest : public testing::CheckpointTest {
 protected:
  LazySnapshotTest() {
    AddTo(values_, "w");
    values_.AddWhole("same", DType::kI32, {129});
    values_.AddText("text", 77);
  }

  void AddTo(Values& values, const std::string& key) const {
    values.AddCut(key, DType::kF32, {64 * size_, 333}, 0, rank_, size_);
  }

  PendingSave Begin(AsyncSaver& saver, int64_t step) {
    values_.Fill(static_cast<uint64_t>(step));
    const State state = values_.MakeState();
    return Ok(saver.Save(run(), step, state));
  }

  int64_t CountWrong(int64_t step) {
    values_.Spoil(static_cast<uint64_t>(step));
    Ok(Restore(comm_, run(), step, values_.MakeState()));
    return values_.CountWrong(static_cast<uint64_t>(step));
  }

  Values values_;
};

TEST_F(LazySnapshotTest, ValuesMayChangeOnceTheyAreCopied) {
  AsyncSaver saver(comm_, kLazy);
  for (int64_t step = 1; step <= 200; ++step) {
    const PendingSave pending = Begin(saver, step);
    EXPECT_FALSE(pending.saved.has_value());
    EXPECT_EQ(pending.finished.has_value(), step > 1);
    for (int64_t polls = step % 4; polls > 0; --polls) {
      EXPECT_FALSE(Ok(saver.Poll()).has_value());
    }
    ASSERT_EQ(saver.WaitForSnapshot(), absl::OkStatus());
    values_.Spoil(static_cast<uint64_t>(step));
    EXPECT_EQ(saver.WaitForSnapshot(), absl::OkStatus());
  }
  const SaveResult last = Ok(saver.Wait()).value();
  EXPECT_EQ(last.step, 200);
  std::vector<std::string> stages;
  for (const StageTime& time : last.counters.stages) {
    stages.push_back(time.stage);
  }
  EXPECT_THAT(stages, ::testing::Contains("copy"));
  EXPECT_GT(last.counters.staged_bytes, 0);
  for (int64_t step = 1; step <= 200; ++step) ASSERT_EQ(CountWrong(step), 0);
}

// However often the program polls, and however fast the disk is.
TEST_F(LazySnapshotTest, NothingIsCommittedBeforeTheProgramHasWaited) {
  AsyncSaver saver(comm_, kLazy);
  Begin(saver, 1);
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(Ok(saver.Poll()).has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_THAT(Ok(ListSteps(run())), IsEmpty());
  EXPECT_EQ(saver.WaitForSnapshot(), absl::OkStatus());
  values_.Spoil(1);
  std::optional<SaveResult> result;
  while (!result) result = Ok(saver.Poll());
  EXPECT_EQ(CountWrong(1), 0);
}

TEST_F(LazySnapshotTest, WaitAndCloseWaitToo) {
  AsyncSaver saver(comm_, kLazy);
  Begin(saver, 1);
  EXPECT_EQ(Ok(saver.Wait())->step, 1);
  Begin(saver, 2);
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  EXPECT_THAT(Ok(ListSteps(run())), ElementsAre(1, 2));
  for (int64_t step = 1; step <= 2; ++step) EXPECT_EQ(CountWrong(step), 0);
}

// The program has changed its values by then.
TEST_F(LazySnapshotTest, TheNextSaveGivesUpWhatNobodyHasWaitedFor) {
  AsyncSaver saver(comm_, kLazy);
  Begin(saver, 1);
  values_.Fill(2);
  const Status status = saver.Save(run(), 2, values_.MakeState()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("step_00000001\": given up, since WaitForSnapshot"));
  EXPECT_FALSE(saver.is_pending());
  EXPECT_THAT(Ok(ListSteps(run())), IsEmpty());
  Begin(saver, 2);
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  EXPECT_EQ(CountWrong(2), 0);
}

TEST_F(LazySnapshotTest, WithoutALazySaveThereIsNothingToWaitFor) {
  AsyncSaver lazy(comm_, kLazy);
  EXPECT_EQ(lazy.WaitForSnapshot(), absl::OkStatus());
  AsyncSaver saver(comm_);
  Begin(saver, 1);
  EXPECT_EQ(saver.WaitForSnapshot(), absl::OkStatus());
  Ok(saver.Wait());
  EXPECT_EQ(saver.WaitForSnapshot(), absl::OkStatus());
  const AsyncSaver moved = std::move(saver);
  EXPECT_TRUE(absl::IsFailedPrecondition(saver.WaitForSnapshot()));
}

TEST_F(LazySnapshotTest, WhatDoesNotFitIsWrittenWhileItIsCopied) {
  AsyncSaver saver(
      comm_, {.max_staging_bytes = 1000, .snapshot = SnapshotMode::kLazy});
  EXPECT_LE(Begin(saver, 1).staged_bytes, 1000);
  EXPECT_EQ(saver.WaitForSnapshot(), absl::OkStatus());
  values_.Spoil(1);
  Ok(saver.Wait());
  EXPECT_EQ(CountWrong(1), 0);
}

// The values go with the program, at once.
TEST_F(LazySnapshotTest, ASaverThatGoesLooksAtNoValueAnyMore) {
  for (int64_t step = 1; step <= 20; ++step) {
    auto values = std::make_unique<Values>();
    AddTo(*values, "big");
    values->Fill(1);
    AsyncSaver saver(comm_, kLazy);
    Ok(saver.Save(run(), step, values->MakeState()));
    { const AsyncSaver gone = std::move(saver); }
    values.reset();
  }
  EXPECT_THAT(Ok(ListSteps(run())), IsEmpty());
}

TEST_F(LazySnapshotTest, ObjectsAreCopiedLater) {
  std::vector<float> w(5000, 1);
  Checkpoint checkpoint(comm_, {{"w", w}});
  AsyncSaver saver(comm_, kLazy);
  for (int step = 1; step <= 3; ++step) {
    w.assign(w.size(), static_cast<float>(step));
    EXPECT_EQ(Ok(saver.Save(checkpoint, run())).step, step);
    EXPECT_EQ(saver.WaitForSnapshot(), absl::OkStatus());
    w.assign(w.size(), -1);
  }
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  for (int step = 1; step <= 3; ++step) {
    Ok(checkpoint.Restore(StepFile(step, "")));
    EXPECT_EQ(w, std::vector<float>(w.size(), static_cast<float>(step)));
  }
}

TEST_F(LazySnapshotTest, AllRanksCopyInTheSameWay) {
  if (size_ == 1) return;
  AsyncSaver saver(comm_, rank_ == 1 ? kLazy : AsyncOptions());
  const Status status = saver.Save(run(), 1, values_.MakeState()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("AsyncOptions differs"));
}

}  // namespace
}  // namespace belay::lazy_snapshot_test
