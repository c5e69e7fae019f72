#include "belay/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belay/log.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "file_bytes.h"
#include "mpi_test.h"
#include "small_state.h"

namespace belay::run_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ScratchDir;
using ::testing::SizeIs;
using testing::WorldRank;
using testing::WorldSize;

// A program with a row per rank and a time.
struct Program {
  std::vector<double> row = std::vector<double>(4);
  double time = 0;

  StatusOr<Run> Open(const ScratchDir& scratch,
                     const ManagerOptions& options = {}) {
    BELAY_ASSIGN_OR_RETURN(
        Run run, Run::Open(MPI_COMM_WORLD, scratch.File("run"), options));
    Describe(run.state());
    return run;
  }

  void Describe(State& state) {
    state.AddPiece("row", {WorldSize(), 4}, {{WorldRank(), 0}, {1, 4}}, row);
    state.Add("time", time);
  }

  void Set(double value) {
    row.assign(4, value + WorldRank());
    time = value;
  }
};

TEST(RunTest, SavesAndGoesOn) {
  const ScratchDir scratch;
  Program program;
  {
    StatusOr<belay::Run> run =
        program.Open(scratch, {.save_policy = {.save_interval_steps = 2},
                               .retention = {.max_to_keep = 2}});
    ASSERT_EQ(run.status(), absl::OkStatus());
    EXPECT_EQ(run->comm().size(), WorldSize());
    EXPECT_EQ(run->Restore()->step, std::nullopt);
    std::vector<int64_t> saved;
    for (int64_t step = 1; step <= 7; ++step) {
      program.Set(static_cast<double>(step));
      const auto done = run->Step(step);
      ASSERT_EQ(done.status(), absl::OkStatus());
      if (done->outcome == SaveOutcome::kSaved) saved.push_back(step);
    }
    EXPECT_THAT(saved, ::testing::ElementsAre(1, 2, 4, 6));
    EXPECT_THAT(run->manager().Steps(), ::testing::ElementsAre(4, 6));
    EXPECT_EQ(run->ShouldStop(), std::nullopt);
    EXPECT_EQ(run->Close(), absl::OkStatus());
    EXPECT_EQ(run->Close(), absl::OkStatus());
  }
  program.Set(-1);
  StatusOr<belay::Run> run = program.Open(scratch);
  ASSERT_EQ(run.status(), absl::OkStatus());
  const auto restored = run->Restore();
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_EQ(restored->step, 6);
  EXPECT_EQ(program.time, 6);
  EXPECT_EQ(program.row, std::vector<double>(4, 6.0 + WorldRank()));
  EXPECT_EQ(run->Close(), absl::OkStatus());
}

TEST(RunTest, InTheBackgroundAndMoved) {
  const ScratchDir scratch;
  Program program;
  StatusOr<belay::Run> opened =
      program.Open(scratch, {.async = AsyncOptions()});
  ASSERT_EQ(opened.status(), absl::OkStatus());
  State& state = opened->state();
  belay::Run run = *std::move(opened);
  EXPECT_EQ(&run.state(), &state);
  program.Set(3);
  EXPECT_EQ(run.Step(3)->outcome, SaveOutcome::kBegun);
  program.Set(4);
  EXPECT_EQ(run.Close(), absl::OkStatus());
  belay::Run again = program.Open(scratch).value();
  EXPECT_EQ(again.Restore()->step, 3);
  EXPECT_EQ(program.time, 3);
  EXPECT_EQ(again.Close(), absl::OkStatus());
}

TEST(RunTest, StopsAfterASignal) {
  const ScratchDir scratch;
  Program program;
  belay::Run run =
      program
          .Open(scratch, {.save_policy = {.save_interval_steps = 100},
                          .stop_signals = {SIGUSR1}})
          .value();
  int64_t step = 0, saved = -1;
  while (!run.ShouldStop() && step < 50) {
    program.Set(static_cast<double>(++step));
    if (step == 5 && WorldRank() == WorldSize() - 1) std::raise(SIGUSR1);
    const auto done = run.Step(step);
    ASSERT_EQ(done.status(), absl::OkStatus());
    if (done->outcome == SaveOutcome::kSaved) saved = step;
  }
  ASSERT_TRUE(run.ShouldStop().has_value());
  EXPECT_LT(step, 10);
  EXPECT_EQ(saved, step) << "the last step is saved";
  EXPECT_EQ(run.Close(), absl::OkStatus());
  EXPECT_TRUE(run.ShouldStop().has_value()) << "for the exit code";
}

TEST(RunTest, WarnsOfAStepThatItSkips) {
  const ScratchDir scratch;
  Program program;
  belay::Run run = program.Open(scratch).value();
  for (int64_t step = 1; step <= 2; ++step) {
    program.Set(static_cast<double>(step));
    EXPECT_EQ(run.Step(step).status(), absl::OkStatus());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (WorldRank() == 0) {
    testing::PutFile(scratch.File("run/step_00000002/index.h5"), "damaged");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<std::string> warnings;
  SetLogSink(
      [&](LogLevel level, std::string_view line) {
        if (level == LogLevel::kWarning) warnings.emplace_back(line);
      },
      LogLevel::kWarning);
  const auto restored = run.Restore();
  SetLogSink(nullptr);
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_EQ(restored->step, 1);
  EXPECT_EQ(program.time, 1);
  if (WorldRank() == 0) {
    ASSERT_THAT(warnings, SizeIs(1));
    EXPECT_THAT(warnings[0],
                HasSubstr("step 2 cannot be restored, so step 1 was restored "
                          "instead: DATA_LOSS: "));
  } else {
    EXPECT_THAT(warnings, IsEmpty());
  }
  EXPECT_EQ(run.Close(), absl::OkStatus());
}

TEST(RunTest, ErrorsAreTheSameOnAllRanks) {
  const ScratchDir scratch;
  const auto refused = [&](const ManagerOptions& options) {
    const Status status =
        belay::Run::Open(MPI_COMM_WORLD, scratch.File("run"), options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(testing::GatherStatus(status),
                ::testing::Each(status.ToString()));
    return std::string(status.message());
  };
  EXPECT_THAT(refused({.retention = {.max_to_keep = -1}}),
              HasSubstr("max_to_keep"));
  const int64_t last = WorldRank() == WorldSize() - 1 ? 3 : 2;
  if (WorldSize() > 1) {
    EXPECT_THAT(refused({.save_policy = {.save_interval_steps = last}}),
                HasSubstr("differs between ranks"));
  }
}

TEST(RunTest, AfterTheEnd) {
  const ScratchDir scratch;
  Program program;
  belay::Run run = program.Open(scratch).value();
  EXPECT_EQ(run.Close(), absl::OkStatus());
  EXPECT_EQ(run.Step(1).status(),
            absl::FailedPreconditionError(
                "save \"CheckpointManager\": it is closed, or was moved from"));
  EXPECT_EQ(
      run.Restore().status(),
      absl::FailedPreconditionError(
          "restore \"CheckpointManager\": it is closed, or was moved from"));
  EXPECT_EQ(run.ShouldStop(), std::nullopt);
}

// A line for each save and each restore, without any setting.
TEST(RunTest, SaysWhatItDoes) {
  const ScratchDir scratch;
  Program program;
  SetLogSink(nullptr);
  belay::Run run = program.Open(scratch).value();
  EXPECT_TRUE(IsLogged(LogLevel::kInfo));
  EXPECT_TRUE(IsLogged(LogLevel::kWarning));
  EXPECT_FALSE(IsLogged(LogLevel::kError)) << "the caller has them";
  EXPECT_FALSE(IsLogged(LogLevel::kDebug));
  std::vector<std::string> lines;
  SetLogSink(
      [&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  EXPECT_EQ(run.Step(1).status(), absl::OkStatus());
  EXPECT_EQ(run.Restore().status(), absl::OkStatus());
  SetLogSink(nullptr);
  if (WorldRank() == 0) {
    ASSERT_THAT(lines, SizeIs(2));
    EXPECT_THAT(lines[0], HasSubstr("saved step 1 in "));
    EXPECT_THAT(lines[1], HasSubstr("restored step 1 from "));
  } else {
    EXPECT_THAT(lines, IsEmpty());
  }
  EXPECT_EQ(run.Close(), absl::OkStatus());
}

}  // namespace
}  // namespace belay::run_test
