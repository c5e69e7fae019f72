// What a save tells the program, and what the program adds to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "belay/log.h"
#include "belay/manager/metadata.h"
#include "values.h"

namespace belay::save_hooks_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;
using ::testing::SizeIs;

class SaveHooksTest : public testing::CheckpointTest {
 protected:
  ~SaveHooksTest() override { SetLogSink(nullptr); }

  StatusOr<SaveResult> SaveOne(int64_t step, const SaveOptions& options) {
    State state;
    state.Add("x", x_);
    return Save(comm_, run(), step, state, options);
  }

  double x_ = 1.5;
};

TEST_F(SaveHooksTest, MetadataIsStoredBesideTheValues) {
  const Metadata metadata = {{"commit", "1a2b"}, {"args", "--lr \u03bb\n"}};
  PlanCache cache;
  Ok(SaveOne(1, {.metadata = rank_ == 0 ? metadata : Metadata{{"no", "one"}},
                 .cache = &cache}));
  Ok(SaveOne(2, {.metadata = {{"commit", "3c4d"}}, .cache = &cache}));
  Ok(SaveOne(3, {.cache = &cache}));
  EXPECT_EQ(ReadMetadata(StepFile(1, "")).value(), metadata);
  EXPECT_EQ(ReadMetadata(StepFile(2, "")).value(),
            (Metadata{{"commit", "3c4d"}}));
  EXPECT_THAT(ReadMetadata(run()).value(), IsEmpty());
  State state;
  state.Add("x", x_);
  Ok(Restore(comm_, run(), 1, state));
  // It belongs to the step: whatever replaces that takes it along.
  Ok(SaveOne(1, {.overwrite = true}));
  EXPECT_THAT(ReadMetadata(StepFile(1, "")).value(), IsEmpty());
}

TEST_F(SaveHooksTest, MetadataThatCannotBeStoredRefusesTheSave) {
  const Status status = SaveOne(1, {.metadata = {{"a", "\xff"}}}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  EXPECT_FALSE(fs::exists(StepFile(1, "")));
}

TEST_F(SaveHooksTest, DamagedMetadataIsFound) {
  Ok(SaveOne(1, {.metadata = {{"commit", "1a2b"}}}));
  if (rank_ == 0) {
    std::fstream file(StepFile(1, "metadata.json"));
    std::string text{std::istreambuf_iterator<char>(file), {}};
    file.seekp(static_cast<std::streamoff>(text.find("1a2b")));
    file << 'x';
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_TRUE(absl::IsDataLoss(ReadMetadata(run()).status()));
  EXPECT_THAT(VerifyCheckpoint(StepFile(1, "")).value().damage,
              ElementsAre(HasSubstr("metadata.json\": damaged: checksum")));
}

TEST_F(SaveHooksTest, AProgramIsAskedBeforeTheCommit) {
  std::vector<std::string> seen;
  const SaveOptions options = {
      .before_commit = [&](const std::string& directory, int64_t step) {
        seen.push_back(directory);
        EXPECT_EQ(step, 1);
        EXPECT_TRUE(fs::exists(directory + "/index.h5"));
        EXPECT_FALSE(fs::exists(StepFile(1, "")));
        return absl::OkStatus();
      }};
  Ok(SaveOne(1, options));
  EXPECT_THAT(seen, SizeIs(rank_ == 0 ? 1 : 0));
  EXPECT_TRUE(fs::exists(StepFile(1, "index.h5")));
}

TEST_F(SaveHooksTest, ItsErrorIsThatOfTheSave) {
  const auto refused = [&](const auto& before_commit) {
    const Status status = SaveOne(1, {.before_commit = before_commit}).status();
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
    EXPECT_FALSE(fs::exists(StepFile(1, "")));
    EXPECT_FALSE(fs::exists(StepFile(1, "") + ".inprogress"));
    return status;
  };
  const Status status = refused([](const std::string&, int64_t) {
    return absl::UnavailableError("no quota");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("step_00000001\": before_commit: no quota [rank 0 of"));
  const Status thrown = refused([](const std::string&, int64_t) -> Status {
    throw std::runtime_error("oops");
  });
  EXPECT_THAT(std::string(thrown.message()),
              HasSubstr("before_commit: exception: oops"));
  Ok(SaveOne(1, {}));
}

TEST_F(SaveHooksTest, AProgramIsToldAfterTheCommit) {
  std::vector<std::string> warnings;
  SetLogSink([&](LogLevel,
                 std::string_view message) { warnings.emplace_back(message); },
             LogLevel::kWarning);
  int64_t committed = 0;
  Ok(SaveOne(7, {.after_commit = [&](const SaveResult& result) {
               committed = result.step;
               EXPECT_TRUE(fs::exists(result.path + "/index.h5"));
               throw std::runtime_error("oops");
             }}));
  EXPECT_EQ(committed, rank_ == 0 ? 7 : 0);
  EXPECT_THAT(warnings, SizeIs(rank_ == 0 ? 1 : 0));
  if (rank_ == 0) {
    EXPECT_THAT(warnings[0], HasSubstr("after_commit: exception: oops"));
  }
}

TEST_F(SaveHooksTest, ResultsAreText) {
  const StatusOr<SaveResult> saved = SaveOne(7, {});
  Ok(saved);
  EXPECT_THAT(saved->ToString(),
              AllOf(HasSubstr("saved step 7 in \"" + StepFile(7, "")),
                    HasSubstr("1 array, 8 B in 1 file by "), HasSubstr("s (")));
  State state;
  state.Add("x", x_);
  double y = 0;
  state.Add("y", y);
  const StatusOr<RestoreResult> restored =
      Restore(comm_, run(), 7, state, {.missing = MismatchPolicy::kCollect});
  Ok(restored);
  EXPECT_THAT(
      restored->ToString(),
      AllOf(HasSubstr("restored step 7 from \"" + StepFile(7, "")),
            HasSubstr("1 checksum compared"), HasSubstr("\nnot stored: y")));
}

TEST_F(SaveHooksTest, TheLogIsThatOfRankZero) {
  std::vector<std::string> told;
  SetLogSink(
      [&](LogLevel level, std::string_view message) {
        told.push_back(std::string(LogLevelName(level)) + " " +
                       std::string(message));
      },
      LogLevel::kInfo);
  State state;
  state.Add("x", x_);
  Ok(SaveOne(7, {}));
  Ok(Restore(comm_, run(), 7, state));
  EXPECT_FALSE(SaveOne(7, {}).ok());
  EXPECT_FALSE(Restore(comm_, run(), 8, state).ok());
  if (rank_ > 0) {
    EXPECT_THAT(told, IsEmpty());
    return;
  }
  ASSERT_THAT(told, SizeIs(4));
  EXPECT_THAT(told[0], HasSubstr("info saved step 7"));
  EXPECT_THAT(told[1], HasSubstr("info restored step 7"));
  EXPECT_THAT(told[2], HasSubstr("error ALREADY_EXISTS"));
  EXPECT_THAT(told[3], HasSubstr("error NOT_FOUND"));
}

}  // namespace
}  // namespace belay::save_hooks_test
