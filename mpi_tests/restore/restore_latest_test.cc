// Restoring the newest step, or nothing where there is none yet.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/log.h"
#include "small_state.h"

namespace belay::testing::restore_latest_test {
namespace {

namespace fs = std::filesystem;

using Latest = StatusOr<std::optional<RestoreResult>>;

class RestoreLatestTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(comm_.Close().ok()); }

  // Lets rank 0 prepare files, which all ranks see afterwards.
  template <typename F>
  void OnRankZero(F prepare) {
    if (WorldRank() == 0) prepare();
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void SaveStep(int64_t step) {
    SmallValues values(step);
    EXPECT_EQ(Save(comm_, run_, step, values.state()).status(),
              absl::OkStatus());
  }

  Latest RestoreLatest(const std::string& dir) {
    values_.Spoil();
    return belay::RestoreLatest(comm_, dir, values_.state());
  }

  // Expects that all ranks are told of nothing, and keep their values.
  void ExpectNothing(const std::string& dir) {
    const Latest restored = RestoreLatest(dir);
    EXPECT_EQ(restored.status(), absl::OkStatus());
    EXPECT_TRUE(restored.ok() && !restored->has_value());
    SmallValues spoilt(0);
    spoilt.Spoil();
    EXPECT_EQ(values_, spoilt);
  }

  void ExpectRestores(const std::string& dir, int64_t step) {
    const Latest restored = RestoreLatest(dir);
    EXPECT_EQ(restored.status(), absl::OkStatus());
    EXPECT_TRUE(restored.ok() && restored->has_value() &&
                (*restored)->step == step);
    EXPECT_EQ(values_, SmallValues(step));
  }

  // Expects the same error on all ranks.
  void ExpectError(const Status& found, absl::StatusCode code,
                   const std::string& message) {
    const Status need(code,
                      absl::StrCat(message, " [rank 0 of ", WorldSize(), "]"));
    for (const std::string& text : GatherStatus(found)) {
      EXPECT_EQ(text, need.ToString());
    }
  }

  ScratchDir scratch_;
  const std::string run_ = scratch_.File("run");
  Comm comm_ = Ok(Comm::Duplicate(MPI_COMM_WORLD));
  SmallValues values_{0};
};

TEST_F(RestoreLatestTest, NothingIsThereYet) {
  ExpectNothing(run_);
  ExpectNothing(run_ + "/not/there");
  OnRankZero([&] { fs::create_directory(run_); });
  ExpectNothing(run_);
  ExpectNothing(run_ + "/");
  OnRankZero([&] {
    fs::create_directory(run_ + "/step_00000001.inprogress");
    std::ofstream(run_ + "/step_00000001.inprogress/index.h5") << "debris";
    std::ofstream(run_ + "/notes.txt") << "of the user";
  });
  ExpectNothing(run_);
  SaveStep(1);
  ExpectRestores(run_, 1);
}

// A directory that is misspelt, or the working directory another one.
TEST_F(RestoreLatestTest, AWarningSaysWhereNothingIs) {
  SaveStep(1);
  std::vector<std::string> warnings;
  SetLogSink(
      [&](LogLevel, std::string_view line) { warnings.emplace_back(line); },
      LogLevel::kWarning);
  const std::string cwd = fs::current_path();
  ExpectRestores(run_, 1);
  EXPECT_TRUE(warnings.empty());
  ExpectNothing(run_ + "s/./here");
  ExpectNothing("nowhere/run");
  SetLogSink(nullptr);
  const std::string end =
      "\": no step is there, so nothing was restored and the program begins "
      "anew";
  const std::vector<std::string> expected = {
      "restore \"" + run_ + "s/here" + end,
      "restore \"" + cwd + "/nowhere/run" + end};
  EXPECT_EQ(warnings, WorldRank() == 0 ? expected : std::vector<std::string>{});
}

TEST_F(RestoreLatestTest, TheNewestStep) {
  SaveStep(3);
  SaveStep(20);
  SaveStep(7);
  OnRankZero([&] { fs::create_directory(run_ + "/step_00000021.inprogress"); });
  ExpectRestores(run_, 20);
  ExpectRestores(run_ + "/step_00000007", 7);
  OnRankZero([&] { fs::remove_all(run_ + "/step_00000020"); });
  ExpectRestores(run_, 7);
}

// The others take the word of rank 0, whatever they see.
TEST_F(RestoreLatestTest, OnlyRankZeroLooks) {
  SaveStep(1);
  const fs::path before = fs::current_path();
  const std::string mine = scratch_.File(std::to_string(WorldRank()));
  fs::create_directory(mine);
  fs::current_path(WorldRank() == 0 ? scratch_.path() : mine);
  const Latest nothing = RestoreLatest("absent");
  EXPECT_TRUE(nothing.ok() && !nothing->has_value());
  if (WorldRank() == 0) {
    fs::current_path(mine);
  } else {
    fs::create_directory("run");
    fs::copy(run_ + "/step_00000001", "run/step_00000001");
  }
  const Latest still_nothing = RestoreLatest("run");
  EXPECT_TRUE(still_nothing.ok() && !still_nothing->has_value());
  fs::current_path(before);
}

TEST_F(RestoreLatestTest, WhatIsNoDirectoryOfSteps) {
  OnRankZero([&] { std::ofstream(run_) << "a file"; });
  ExpectError(RestoreLatest(run_).status(), absl::StatusCode::kInvalidArgument,
              absl::StrCat("list directory \"", run_, "\": not a directory"));
  ExpectError(RestoreLatest("").status(), absl::StatusCode::kNotFound,
              "list directory \"\": no such file or directory");
  ExpectError(RestoreLatest(run_ + ".inprogress").status(),
              absl::StatusCode::kNotFound,
              absl::StrCat("restore \"", run_,
                           ".inprogress\": not committed; it is a save that "
                           "is running or was killed"));
}

TEST_F(RestoreLatestTest, ADirectoryThatMayNotBeRead) {
  OnRankZero([&] {
    fs::create_directory(run_);
    fs::permissions(run_, fs::perms::none);
    fs::permissions(scratch_.path(), fs::perms(0755));
  });
  const bool is_root = geteuid() == 0;
  if (is_root) {
    EXPECT_EQ(seteuid(65534), 0);
  }
  const Status status = RestoreLatest(run_).status();
  if (is_root) {
    EXPECT_EQ(seteuid(0), 0);
  }
  ExpectError(status, absl::StatusCode::kPermissionDenied,
              absl::StrCat("list directory \"", run_, "\": permission denied"));
  OnRankZero([&] { fs::permissions(run_, fs::perms(0755)); });
  ExpectNothing(run_);
}

// A run that begins anew by mistake would replace what it could not read.
TEST_F(RestoreLatestTest, AStepThatCannotBeRestoredIsNotNothing) {
  SaveStep(1);
  float wanted = 0;
  State other;
  other.Add("wanted", wanted);
  EXPECT_TRUE(
      absl::IsNotFound(belay::RestoreLatest(comm_, run_, other).status()));
  const std::string step = run_ + "/step_00000001";
  OnRankZero([&] { fs::resize_file(step + "/index.h5", 100); });
  EXPECT_TRUE(absl::IsDataLoss(RestoreLatest(run_).status()));
  OnRankZero([&] { fs::remove(step + "/index.h5"); });
  ExpectError(RestoreLatest(step).status(), absl::StatusCode::kNotFound,
              absl::StrCat("restore \"", step,
                           "\": the step has no index.h5; parts of it were "
                           "deleted, or not copied"));
}

TEST_F(RestoreLatestTest, TheErrorOfADamagedStepNamesTheOneBefore) {
  for (const int64_t step : {1, 7, 9}) SaveStep(step);
  OnRankZero([&] { fs::resize_file(run_ + "/step_00000009/index.h5", 100); });
  const Status status = RestoreLatest(run_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(
      status.message().find("; use an earlier step, such as 7 [rank 0 of "),
      std::string::npos)
      << status;
}

TEST_F(RestoreLatestTest, RanksDisagree) {
  if (WorldSize() == 1) GTEST_SKIP() << "needs two ranks";
  const bool is_last = WorldRank() == WorldSize() - 1;
  for (const std::string& text :
       GatherStatus(RestoreLatest(is_last ? run_ + "x" : run_).status())) {
    EXPECT_NE(text.find(absl::StrCat("has \"", run_, "x\", rank 0 has \"", run_,
                                     "\" [rank ")),
              std::string::npos)
        << text;
  }
  float* null = nullptr;
  State broken;
  if (is_last) broken.AddReplicated("a", {2}, AtAddress(null));
  for (const std::string& text :
       GatherStatus(belay::RestoreLatest(comm_, run_, broken).status())) {
    EXPECT_NE(text.find("add \"a\": the pointer is null"), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace belay::testing::restore_latest_test
