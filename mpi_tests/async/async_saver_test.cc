// Saves whose bytes are written after the call has returned.

#include "belay/async_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/log.h"
#include "fault_points.h"
#include "format/paths.h"
#include "values.h"

namespace belay::async_saver_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;
using testing::Values;

class AsyncSaverTest : public testing::CheckpointTest {
 protected:
  AsyncSaverTest() {
    values_.AddCut("weights", DType::kF32, {64 * size_, 33}, 0, rank_, size_);
    values_.AddCut("columns", DType::kF64, {7, 5 * size_ + 1}, 1, rank_, size_);
    values_.AddWhole("same", DType::kI32, {129});
    values_.AddText("text", 77);
  }

  // Saves the values of a seed, and makes all of them wrong at once.
  StatusOr<PendingSave> SaveAndSpoil(AsyncSaver& saver, int64_t step,
                                     const SaveOptions& options = {}) {
    values_.Fill(static_cast<uint64_t>(step));
    auto pending = saver.Save(run(), step, values_.MakeState(), options);
    values_.Spoil(static_cast<uint64_t>(step));
    return pending;
  }

  int64_t CountWrong(int64_t step) {
    values_.Spoil(static_cast<uint64_t>(step));
    Ok(Restore(comm_, run(), step, values_.MakeState()));
    return values_.CountWrong(static_cast<uint64_t>(step));
  }

  Values values_;
};

TEST_F(AsyncSaverTest, WhatWasThereAtTheCallIsSaved) {
  AsyncSaver saver(comm_);
  for (int64_t step = 1; step <= 3; ++step) {
    const PendingSave pending = Ok(SaveAndSpoil(saver, step));
    EXPECT_EQ(pending.path, StepFile(step, ""));
    EXPECT_EQ(pending.step, step);
    EXPECT_FALSE(pending.saved.has_value());
    EXPECT_TRUE(saver.is_pending());
    EXPECT_EQ(pending.finished.has_value(), step > 1);
    if (step > 1) {
      EXPECT_EQ(pending.finished->step, step - 1);
    }
  }
  const std::optional<SaveResult> last = Ok(saver.Wait());
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->step, 3);
  EXPECT_TRUE(last->plan_reused);
  EXPECT_EQ(last->counters.stages.back().stage, "flush");
  EXPECT_FALSE(saver.is_pending());
  EXPECT_FALSE(Ok(saver.Wait()).has_value());
  EXPECT_FALSE(Ok(saver.Poll()).has_value());
  for (int64_t step = 1; step <= 3; ++step) EXPECT_EQ(CountWrong(step), 0);
  EXPECT_EQ(saver.Close(), absl::OkStatus());
}

TEST_F(AsyncSaverTest, TheFilesAreThoseOfASaveInTheForeground) {
  AsyncSaver saver(comm_);
  values_.Fill(1);
  Ok(Save(comm_, run(), 1, values_.MakeState()));
  Ok(saver.Save(run(), 2, values_.MakeState()));
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  for (const std::string& name : testing::NamesIn(StepFile(1, ""))) {
    const std::string first = testing::FileBytes(StepFile(1, name));
    const std::string second = testing::FileBytes(StepFile(2, name));
    EXPECT_EQ(first.size(), second.size()) << name;
    // The index differs in the step, the time and their digest.
    if (name != "index.h5") {
      EXPECT_EQ(first, second) << name;
    }
  }
}

// A step that is not committed is neither listed nor restored.
TEST_F(AsyncSaverTest, AStepIsThereOnceItIsComplete) {
  AsyncSaver saver(comm_, {.max_bytes_per_second = 100000});
  Ok(SaveAndSpoil(saver, 1));
  Ok(saver.Wait());
  Ok(SaveAndSpoil(saver, 2));
  EXPECT_THAT(Ok(ListSteps(run())), ElementsAre(1));
  EXPECT_EQ(CountWrong(1), 0);
  EXPECT_EQ(Ok(Restore(comm_, run(), kLatestStep, values_.MakeState())).step,
            1);
  int64_t polls = 0;
  std::optional<SaveResult> result;
  while (!result) {
    result = Ok(saver.Poll());
    ++polls;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GE(polls, 3);
  EXPECT_TRUE(testing::IsSameEverywhere(std::to_string(polls)));
  EXPECT_EQ(result->step, 2);
  EXPECT_EQ(CountWrong(2), 0);
}

// While a vote is under way the program may use its communicator, and belay's.
TEST_F(AsyncSaverTest, OtherCallsGoOnMeanwhile) {
  constexpr int64_t kSaves = 1000;
  AsyncSaver saver(comm_);
  const SaveOptions options{.overwrite = true, .durable = false};
  for (int64_t i = 1; i <= kSaves; ++i) {
    Ok(SaveAndSpoil(saver, 1 + i % 2, options));
    for (int64_t polls = i % 5; polls > 0; --polls) Ok(saver.Poll());
    int64_t sum = rank_;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    ASSERT_EQ(sum, size_ * (size_ - 1) / 2);
    if (i % 10 == 0) {
      // The step before is complete.
      values_.Spoil(1);
      Ok(Restore(comm_, run(), 1 + (i - 1) % 2, values_.MakeState()));
      ASSERT_EQ(values_.CountWrong(static_cast<uint64_t>(1 + (i - 1) % 2)), 0);
    }
  }
  EXPECT_EQ(saver.Close(), absl::OkStatus());
}

TEST_F(AsyncSaverTest, WhatDoesNotFitIsWrittenAtOnce) {
  for (const int64_t limit : {int64_t{0}, int64_t{1000}, int64_t{6000}}) {
    AsyncSaver saver(comm_, {.max_staging_bytes = limit});
    const PendingSave pending =
        Ok(SaveAndSpoil(saver, limit, {.overwrite = true}));
    EXPECT_LE(pending.staged_bytes, limit);
    EXPECT_EQ(saver.Close(), absl::OkStatus());
    EXPECT_EQ(CountWrong(limit), 0);
  }
}

TEST_F(AsyncSaverTest, AllOfTheLimitMayBeTakenAtCreation) {
  constexpr int64_t kLimit = int64_t{1} << 20;
  AsyncSaver saver(
      comm_, {.max_staging_bytes = kLimit, .initial_staging_bytes = kLimit});
  const PendingSave pending = Ok(SaveAndSpoil(saver, 1, {}));
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  EXPECT_EQ(CountWrong(1), 0);
  AsyncSaver without(comm_, {.max_staging_bytes = kLimit});
  EXPECT_EQ(Ok(SaveAndSpoil(without, 2, {})).staged_bytes,
            pending.staged_bytes);
  EXPECT_EQ(without.Close(), absl::OkStatus());
}

TEST_F(AsyncSaverTest, WhatIsReadBackIsRight) {
  AsyncSaver saver(comm_);
  Ok(SaveAndSpoil(saver, 1, {.read_back = true}));
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  EXPECT_EQ(CountWrong(1), 0);
}

TEST_F(AsyncSaverTest, SomeSavesAreDoneAtOnce) {
  AsyncSaver saver(comm_);
  for (const Transfer transfer :
       {Transfer::kTwoPhase, Transfer::kCollective, Transfer::kHdf5}) {
    const int64_t step = static_cast<int64_t>(transfer);
    const PendingSave pending =
        Ok(SaveAndSpoil(saver, step, {.transfer = transfer}));
    EXPECT_TRUE(pending.saved.has_value());
    EXPECT_THAT(pending.note, HasSubstr("in the foreground"));
    EXPECT_FALSE(saver.is_pending());
    EXPECT_EQ(CountWrong(step), 0);
  }
  const PendingSave filtered = Ok(SaveAndSpoil(
      saver, 20,
      {.args = {{.keys = "weights", .args = {.filters = Deflate()}}}}));
  EXPECT_TRUE(filtered.saved.has_value());
  EXPECT_THAT(filtered.note, HasSubstr("filters"));
  EXPECT_EQ(CountWrong(20), 0);
}

TEST_F(AsyncSaverTest, TheProgramIsAskedInItsOwnThread) {
  AsyncSaver saver(comm_);
  const auto own = std::this_thread::get_id();
  int before = 0;
  int after = 0;
  SaveOptions options;
  options.before_commit = [&](const std::string& directory, int64_t step) {
    EXPECT_EQ(std::this_thread::get_id(), own);
    EXPECT_TRUE(fs::exists(directory + "/index.h5"));
    EXPECT_EQ(step, 1);
    ++before;
    return absl::OkStatus();
  };
  options.after_commit = [&](const SaveResult& result) {
    EXPECT_EQ(std::this_thread::get_id(), own);
    EXPECT_EQ(result.step, 1);
    ++after;
  };
  Ok(SaveAndSpoil(saver, 1, options));
  Ok(saver.Wait());
  EXPECT_EQ(before, rank_ == 0 ? 1 : 0);
  EXPECT_EQ(after, rank_ == 0 ? 1 : 0);
  EXPECT_EQ(CountWrong(1), 0);

  options.before_commit = [](const std::string&, int64_t) {
    return absl::AbortedError("not this one");
  };
  Ok(SaveAndSpoil(saver, 2, options));
  const Status status = saver.Wait().status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  EXPECT_THAT(Ok(ListSteps(run())), ElementsAre(1));
}

TEST_F(AsyncSaverTest, OptionsHaveARange) {
  for (const AsyncOptions& options :
       {AsyncOptions{.max_staging_bytes = -1},
        AsyncOptions{.initial_staging_bytes = -1},
        AsyncOptions{.max_bytes_per_second = -1}}) {
    AsyncSaver saver(comm_, options);
    const Status status = saver.Save(run(), 1, values_.MakeState()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("is out of range (need at least 0, found -1)"));
  }
}

TEST_F(AsyncSaverTest, MistakesAreErrorsOfTheCall) {
  AsyncSaver saver(comm_);
  for (const Status& status :
       {saver.Save("", 1, values_.MakeState()).status(),
        saver.Save(run(), -1, values_.MakeState()).status(),
        saver.Save(run(), rank_, State()).status()}) {
    if (size_ == 1 && status.ok()) continue;  // ranks cannot differ
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  }
  Ok(saver.Wait());
  Ok(SaveAndSpoil(saver, 5));
  Ok(saver.Wait());
  EXPECT_EQ(SaveAndSpoil(saver, 5).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(saver.is_pending());
  EXPECT_EQ(CountWrong(5), 0);
}

TEST_F(AsyncSaverTest, ASaveThatNobodyWaitsForIsGivenUp) {
  {
    AsyncSaver saver(comm_, {.max_bytes_per_second = 1});
    Ok(SaveAndSpoil(saver, 1));
  }
  EXPECT_THAT(ListSteps(run()).value(), IsEmpty());
  // The next one takes its place.
  AsyncSaver saver(comm_);
  Ok(SaveAndSpoil(saver, 1));
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  EXPECT_EQ(CountWrong(1), 0);
}

TEST_F(AsyncSaverTest, AProgramMayFork) {
  AsyncSaver saver(comm_, {.max_bytes_per_second = 200000});
  Ok(SaveAndSpoil(saver, 1));
  const pid_t child = fork();
  if (child == 0) {
    // As a child that ends in the usual way does.
    { const AsyncSaver gone = std::move(saver); }
    _exit(0);
  }
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  Ok(saver.Wait());
  EXPECT_EQ(CountWrong(1), 0);
}

// What was lent for a save may be gone before that has ended.
TEST_F(AsyncSaverTest, CachesAndCheckpointsMayGo) {
  AsyncSaver saver(comm_);
  for (int64_t step = 1; step <= 5; ++step) {
    PlanCache cache;
    Ok(SaveAndSpoil(saver, step, {.cache = &cache}));
  }
  {
    float w = 1;
    Checkpoint checkpoint(comm_, {{"w", w}});
    Ok(saver.Save(checkpoint, run() + "_objects"));
  }
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  for (int64_t step = 1; step <= 5; ++step) EXPECT_EQ(CountWrong(step), 0);
  EXPECT_THAT(Ok(ListSteps(run() + "_objects")), ElementsAre(1));
}

// SaveAs has no form in the background, and need not wait for one.
TEST_F(AsyncSaverTest, ASaveUnderAnyNameGoesOnMeanwhile) {
  float w = 1;
  Checkpoint checkpoint(comm_, {{"w", w}});
  AsyncSaver saver(comm_, {.max_bytes_per_second = 100000});
  Ok(SaveAndSpoil(saver, 1));
  Ok(saver.Poll());
  const std::string best = run() + "_best";
  Ok(checkpoint.SaveAs(best));
  EXPECT_TRUE(saver.is_pending());
  w = 2;
  Ok(checkpoint.Restore(best));
  EXPECT_EQ(w, 1);
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  EXPECT_EQ(CountWrong(1), 0);
}

TEST_F(AsyncSaverTest, ASaveThatIsGivenUpIsLogged) {
  std::vector<std::string> lines;
  SetLogSink([&](LogLevel, std::string_view line) { lines.emplace_back(line); },
             LogLevel::kWarning);
  {
    AsyncSaver saver(comm_, {.max_bytes_per_second = 1});
    Ok(SaveAndSpoil(saver, 1));
  }
  // It may still end, unless another one begins.
  EXPECT_EQ(lines.size(), 0);
  AsyncSaver another(comm_);
  Ok(SaveAndSpoil(another, 2));
  EXPECT_EQ(another.Close(), absl::OkStatus());
  SetLogSink(nullptr);
  EXPECT_EQ(lines.size(), rank_ == 0 ? 1 : 0);
  for (const std::string& line : lines) {
    EXPECT_THAT(line, HasSubstr("step_00000001\" in the background was given"));
  }
}

TEST_F(AsyncSaverTest, AnErrorSaysWhichSaveItWas) {
  AsyncSaver saver(comm_, {.max_bytes_per_second = 100000});
  Ok(SaveAndSpoil(saver, 1));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) fs::remove_all(InProgressPath(StepFile(1, "")));
  const Status status = saver.Wait().status();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("step_00000001"));
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("save \""));
}

TEST_F(AsyncSaverTest, ObjectsCountTheStepsThatAreSaved) {
  float w = 1;
  Checkpoint checkpoint(comm_, {{"w", w}});
  AsyncSaver saver(comm_);
  EXPECT_EQ(Ok(saver.Save(checkpoint, run())).step, 1);
  w = 2;
  SaveOptions refused;
  refused.before_commit = [](const std::string&, int64_t) {
    return absl::AbortedError("not this one");
  };
  EXPECT_EQ(Ok(saver.Save(checkpoint, run(), refused)).step, 2);
  EXPECT_TRUE(absl::IsAborted(saver.Wait().status()));
  EXPECT_EQ(checkpoint.save_counter(), 1);
  w = 3;
  EXPECT_EQ(Ok(saver.Save(checkpoint, run())).step, 2);
  w = 4;
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  EXPECT_EQ(checkpoint.save_counter(), 2);
  EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(w, 3);
  Ok(checkpoint.Restore(StepFile(1, "")));
  EXPECT_EQ(w, 1);
}

}  // namespace
}  // namespace belay::async_saver_test
