// Every fault of a managed save in the background is the same outcome on all
// ranks, and the next save works.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/fault.h"
#include "fault_points.h"
#include "manager_testing.h"

namespace belay::testing {
namespace {

class ManagerAsyncFaultTest : public ManagerTest {
 protected:
  static void SetUpTestSuite() { UseMemory(); }

  // Saves a step, and goes on until nothing is under way. Whether it was missed
  // goes to `missed`.
  Status SaveAndPoll(CheckpointManager& manager, int64_t step, bool& missed) {
    const auto due = manager.ShouldSave(step);
    if (!due.ok()) return due.status();
    program_.Set(step);
    const auto begun = manager.Save(step);
    program_.Set(-1);
    if (!begun.ok()) return begun.status();
    missed = begun->failure.has_value();
    const auto again = manager.ShouldSave(step);
    if (!again.ok()) return again.status();
    const auto ended = manager.Wait();
    if (!ended.ok()) return ended.status();
    missed = missed || (*ended && (*ended)->failure);
    return absl::OkStatus();
  }

  // Makes every `stride`-th point of every rank fail once.
  void Sweep(int64_t stride, int64_t tolerated) {
    auto manager = Manage({.async = AsyncOptions(),
                           .tolerated_failures = tolerated,
                           .retention = {.max_to_keep = 2}});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    bool missed = false;
    EXPECT_EQ(SaveAndPoll(*manager, 1, missed), absl::OkStatus());
    fault::Arm(0);
    EXPECT_EQ(SaveAndPoll(*manager, 2, missed), absl::OkStatus());
    const std::vector<int64_t> counts = CountOfEachRank(fault::Count());
    fault::Disarm();
    int64_t step = 2;
    int64_t failed = 0;
    for (int rank = 0; rank < WorldSize(); ++rank) {
      for (const int64_t n : PointsToTake(counts[rank], StrideOr(stride))) {
        SCOPED_TRACE(absl::StrCat("point ", n, " of rank ", rank));
        time_ += 1000;
        missed = false;
        const Status status = WithFault(
            rank, n, [&] { return SaveAndPoll(*manager, ++step, missed); });
        EXPECT_THAT(GatherStatus(status), ::testing::Each(status.ToString()));
        failed += !status.ok() || missed ? 1 : 0;
        time_ += 1000;
        EXPECT_EQ(SaveAndPoll(*manager, ++step, missed), absl::OkStatus());
        EXPECT_FALSE(missed);
        EXPECT_EQ(manager->LatestStep(), step);
        EXPECT_EQ(OnDisk(), manager->Steps());
        EXPECT_EQ(manager->RestoreLatest().status(), absl::OkStatus());
        EXPECT_TRUE(program_.Is(step));
        if (!OnAllRanks(!HasFailure())) return;
      }
    }
    EXPECT_GT(failed, 10);
  }
};

TEST_F(ManagerAsyncFaultTest, EveryFaultIsAgreedAndTheNextSaveWorks) {
  Sweep(1, 0);
}

TEST_F(ManagerAsyncFaultTest, SoIsEveryFaultThatIsTolerated) { Sweep(1, 1); }

}  // namespace
}  // namespace belay::testing
