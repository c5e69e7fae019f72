// Two jobs that save the same step at the same time, without a manager: each
// save succeeds or fails as a whole, and a step that is there is whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "belay/async_saver.h"
#include "belay/checkpoint_manager.h"
#include "belay/save_restore.h"
#include "fault_points.h"
#include "format/paths.h"
#include "values.h"

namespace belay::two_jobs_test {
namespace {

using testing::Ok;
using testing::Values;

class TwoJobsTest : public testing::CheckpointTest {
 protected:
  void SetUp() override {
    if (size_ < 2) GTEST_SKIP() << "two jobs need two ranks";
    job_ = rank_ % 2;
    part_ = Ok(comm_.Split(job_));
    Add(values_, part_->rank(), part_->size());
    Add(whole_, 0, 1);
  }
  void TearDown() override {
    if (!part_) return;
    EXPECT_EQ(part_->Close(), absl::OkStatus());
  }

  static void Add(Values& values, int rank, int size) {
    values.AddCut("w", DType::kF32, {64, 30}, 0, rank, size);
    values.AddCut("columns", DType::kF64, {7, 24}, 1, rank, size);
  }

  // Which of the jobs' values a step has; -1: none of theirs.
  int WhoseIs(int64_t step, uint64_t seed) {
    for (const int job : {0, 1}) {
      whole_.Spoil(1);
      Ok(Restore(comm_, run(), step, whole_.MakeState()));
      if (whole_.CountWrong(2 * seed + job) == 0) return job;
    }
    return -1;
  }

  // Whether an error says which step somebody else saves too, or has saved.
  static bool TellsOfOther(const Status& status, int64_t step) {
    const std::string message(status.message());
    const auto has = [&](const std::string& text) {
      return message.find(text) != std::string::npos;
    };
    return has(StepName(step)) && (has("another save of this step") ||
                                   has("the step is committed already"));
  }

  // All saves of one way, again and again. Returns how many have failed.
  template <typename SaveOnce>
  int64_t Race(int64_t rounds, bool overwrite, SaveOnce save) {
    int64_t failed = 0;
    for (int64_t step = 1; step <= rounds; ++step) {
      const auto seed = static_cast<uint64_t>(step);
      values_.Fill(2 * seed + static_cast<uint64_t>(job_));
      MPI_Barrier(MPI_COMM_WORLD);
      const Status status = save(step);
      failed += status.ok() ? 0 : 1;
      EXPECT_TRUE(status.ok() || TellsOfOther(status, step)) << status;
      // The first rank of each job speaks for it.
      int ok[2] = {0, 0};
      if (part_->rank() == 0) ok[job_] = status.ok() ? 1 : 0;
      MPI_Allreduce(MPI_IN_PLACE, ok, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      const std::vector<int64_t> steps = Ok(ListSteps(run()));
      const bool is_there = !steps.empty() && steps.back() == step;
      EXPECT_EQ(is_there, ok[0] + ok[1] > 0) << "step " << step;
      EXPECT_LE(ok[0] + ok[1], overwrite ? 2 : 1) << "step " << step;
      if (is_there) {
        const int whose = WhoseIs(step, seed);
        EXPECT_TRUE(whose >= 0 && ok[whose] == 1) << "step " << step;
      }
      if (!testing::OnAllRanks(!HasFailure())) break;
    }
    return failed;
  }

  int job_ = 0;
  std::optional<Comm> part_;
  Values values_;
  Values whole_;
};

TEST_F(TwoJobsTest, OfTheSameStepOneIsWhole) {
  for (const Transfer transfer :
       {Transfer::kIndependent, Transfer::kTwoPhase, Transfer::kCollective}) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) std::filesystem::remove_all(run());
    const int64_t failed = Race(60, false, [&](int64_t step) {
      return Save(*part_, run(), step, values_.MakeState(),
                  {.transfer = transfer, .durable = false})
          .status();
    });
    EXPECT_LE(failed, 60);
  }
}

TEST_F(TwoJobsTest, SoItIsIfTheyOverwrite) {
  Race(80, true, [&](int64_t step) {
    return Save(*part_, run(), step, values_.MakeState(),
                {.overwrite = true, .durable = false})
        .status();
  });
}

TEST_F(TwoJobsTest, SoItIsInTheBackground) {
  AsyncSaver saver(*part_);
  Race(60, false, [&](int64_t step) {
    const Status status =
        saver.Save(run(), step, values_.MakeState(), {.durable = false})
            .status();
    return status.ok() ? saver.Wait().status() : status;
  });
}

// Only one manager saves in a directory, also while its thread writes; one that
// reads sees the steps before.
TEST_F(TwoJobsTest, AnotherManagerIsRefusedWhileAStepIsWritten) {
  const State state = values_.MakeState();
  const auto manage = [&](const ManagerOptions& options) {
    return CheckpointManager::Create(*part_, state, run(), options);
  };
  const auto steps = [](const StatusOr<CheckpointManager>& manager) {
    return manager.ok() ? manager->Steps() : std::vector<int64_t>{-1};
  };
  std::optional<CheckpointManager> writer;
  if (job_ == 0) {
    values_.Fill(1);
    writer = Ok(manage({.async = AsyncOptions{.max_bytes_per_second = 20000}}));
    Ok(writer->Save(1));
    Ok(writer->Wait());
    values_.Fill(2);
    EXPECT_EQ(Ok(writer->Save(2)).outcome, SaveOutcome::kBegun);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (job_ == 1) {
    const Status refused = manage({}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                ::testing::HasSubstr("held by process"));
    auto reader = manage({.read_only = true});
    EXPECT_THAT(steps(reader), ::testing::ElementsAre(1));
    EXPECT_EQ(Ok(reader->RestoreLatest()).step, 1);
    EXPECT_EQ(values_.CountWrong(1), 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (job_ == 0) {
    EXPECT_EQ(testing::Ok(writer->Wait())->outcome, SaveOutcome::kSaved);
    writer.reset();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (job_ == 1) {
    auto next = manage({});
    EXPECT_THAT(steps(next), ::testing::ElementsAre(1, 2));
    EXPECT_EQ(Ok(next->RestoreLatest()).step, 2);
    EXPECT_EQ(values_.CountWrong(2), 0);
  }
}

}  // namespace
}  // namespace belay::two_jobs_test
