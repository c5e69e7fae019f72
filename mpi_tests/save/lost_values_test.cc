// Values that a save or a restore changes by more than rounding: told with the
// counts of all ranks, or refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "belay/async_saver.h"
#include "belay/extend/transform_function.h"
#include "belay/log.h"
#include "belay/reader/copy_checkpoint.h"
#include "belay/values/restore_values.h"
#include "values.h"

namespace belay::lost_values_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;

constexpr int64_t kEach = 100;  // values of each rank

class LostValuesTest : public testing::CheckpointTest {
 protected:
  LostValuesTest() : values_(kEach, 1.5), counters_(3, 7) {
    SetLogSink(
        [this](LogLevel, std::string_view line) { log_.emplace_back(line); },
        LogLevel::kWarning);
  }
  ~LostValuesTest() override { SetLogSink(nullptr); }

  State MakeState() {
    State state;
    state.AddPiece("m/w", {kEach * size_}, {{kEach * rank_}, {kEach}},
                   AtAddress(values_.data()));
    state.AddPiece("m/v", {kEach * size_}, {{kEach * rank_}, {kEach}},
                   AtAddress(small_.data()));
    state.AddReplicated("n", {3}, AtAddress(counters_.data()));
    return state;
  }

  // The last rank has what no small float has.
  void PutLargeValues() {
    if (rank_ != size_ - 1) return;
    values_[3] = 1e300;
    values_[4] = -1e300;
    values_[99] = 465;
    values_[5] = 464;  // is rounded
    values_[6] = std::numeric_limits<double>::quiet_NaN();
  }

  SaveOptions AsSmallFloats(bool strict = false) const {
    return {.args = {{"m/w", {.dtype = DType::kF8E4M3}}},
            .overwrite = true,
            .strict_dtype = strict,
            .durable = false};
  }

  std::string LargeOfStep(int64_t step) const {
    return absl::StrCat("save \"", StepFile(step, ""), "\": \"m/w\": 3 of ",
                        kEach * size_,
                        " f64 values are too large for f8e4m3 and become 448 "
                        "or -448 (such as 1e+300)");
  }

  // A warning for each of these, and only rank 0 says it.
  void ExpectTold(const std::vector<std::string>& found,
                  const std::vector<std::string>& need) {
    EXPECT_EQ(found, need);
    EXPECT_EQ(log_, rank_ == 0 ? need : std::vector<std::string>());
    log_.clear();
  }

  void ExpectRefused(const Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr(text), HasSubstr("strict_dtype does not allow this")));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
    log_.clear();
  }

  // What is there of a step that was saved before any value was large.
  void ExpectStepIsThere(int64_t step, double first) {
    std::vector<double> found(kEach, -1);
    State state;
    state.AddPiece("m/w", {kEach * size_}, {{kEach * rank_}, {kEach}},
                   AtAddress(found.data()));
    Ok(Restore(comm_, run(), step, state, {.allow_dtype_cast = true}));
    EXPECT_EQ(found, std::vector<double>(kEach, first));
    EXPECT_FALSE(std::filesystem::exists(StepFile(step + 1, "")));
    log_.clear();
  }

  std::vector<double> values_;
  std::vector<double> small_ = std::vector<double>(kEach, 1e-300);
  std::vector<int64_t> counters_;
  std::vector<std::string> log_;
};

TEST_F(LostValuesTest, ASaveWarnsOncePerKeyWithTheCountsOfAllRanks) {
  for (const FileLayout file_layout :
       {FileLayout::kShared, FileLayout::kPerTask}) {
    for (const Transfer transfer :
         {Transfer::kCollective, Transfer::kIndependent, Transfer::kHdf5,
          Transfer::kTwoPhase}) {
      SaveOptions options = AsSmallFloats();
      options.file_layout = file_layout;
      options.transfer = transfer;
      options.read_back = true;  // converts again, and counts nothing twice
      values_.assign(kEach, 1.5);
      ExpectTold(Ok(Save(comm_, run(), 1, MakeState(), options)).warnings, {});
      PutLargeValues();
      ExpectTold(Ok(Save(comm_, run(), 1, MakeState(), options)).warnings,
                 {LargeOfStep(1)});
    }
  }
}

TEST_F(LostValuesTest, EachKeyAndEachKindOfLoss) {
  PutLargeValues();
  SaveOptions options = AsSmallFloats();
  if (rank_ == 0) values_[0] = 0.25;
  if (rank_ == size_ - 1) values_[1] = -0.5;
  counters_ = {16777217, 3, -16777219};
  options.args = {{"m/w", {.dtype = DType::kI16}},
                  {"m/v", {.dtype = DType::kF32}},
                  {"n", {.dtype = DType::kF32}}};
  const std::string start = absl::StrCat("save \"", StepFile(2, ""), "\": ");
  const int64_t all = kEach * size_;
  // 1.5 has a fraction, too: all but the large ones, 464 and 465, and the NaN.
  ExpectTold(
      Ok(Save(comm_, run(), 2, MakeState(), options)).warnings,
      {absl::StrCat(start, "\"m/v\": ", all, " of ", all,
                    " f64 values are too small for f32 and become 0 (such as "
                    "1e-300)"),
       absl::StrCat(start, "\"m/w\": 2 of ", all,
                    " f64 values are outside the range of i16 and become "
                    "-32768 or 32767 (such as 1e+300); 1 is NaN or infinite "
                    "and becomes 0, -32768 or 32767 (such as NaN); ",
                    all - 5, " lose their fraction in i16 (such as 0.25)"),
       absl::StrCat(start,
                    "\"n\": 2 of 3 i64 values are integers that f32 does not "
                    "hold exactly (such as 16777217)")});
}

TEST_F(LostValuesTest, RoundingIsNoLoss) {
  values_.assign(kEach, 0.1);
  counters_ = {1, 2, 3};
  SaveOptions options = AsSmallFloats();
  options.args = {{"m/w", {.dtype = DType::kBF16}},
                  {"n", {.dtype = DType::kF16}}};
  options.strict_dtype = true;
  ExpectTold(Ok(Save(comm_, run(), 1, MakeState(), options)).warnings, {});
}

TEST_F(LostValuesTest, ASaveReportsInFewMoreMessagesAndOnlyIfThereIsLoss) {
  SaveOptions options = AsSmallFloats();
  const auto messages = [&] {
    return Ok(Save(comm_, run(), 1, MakeState(), options)).counters.messages;
  };
  messages();  // those of the first save in a directory count more
  const int64_t without = messages();
  options.args = {{"m/w", {.dtype = DType::kF64}}};
  EXPECT_EQ(messages(), without);
  options = AsSmallFloats();
  PutLargeValues();
  EXPECT_GT(messages(), without);
}

TEST_F(LostValuesTest, AStrictSaveCommitsNothing) {
  Ok(Save(comm_, run(), 1, MakeState(), AsSmallFloats(true)));
  PutLargeValues();
  for (const Transfer transfer :
       {Transfer::kCollective, Transfer::kIndependent, Transfer::kTwoPhase}) {
    for (const int64_t step : {1, 2}) {
      SaveOptions options = AsSmallFloats(true);
      options.transfer = transfer;
      ExpectRefused(Save(comm_, run(), step, MakeState(), options).status(),
                    LargeOfStep(step));
    }
  }
  ExpectStepIsThere(1, 1.5);
}

TEST_F(LostValuesTest, AStrictErrorCountsTheOtherKeys) {
  PutLargeValues();
  SaveOptions options = AsSmallFloats(true);
  options.args = {{"m/.*", {.dtype = DType::kF8E4M3}}};
  ExpectRefused(Save(comm_, run(), 1, MakeState(), options).status(),
                "too small for f8e4m3 and become 0 (such as 1e-300); the same "
                "holds for 1 more key;");
}

TEST_F(LostValuesTest, ManyKeysDoNotFloodTheLog) {
  PutLargeValues();
  State state;
  for (int i = 0; i < 25; ++i) {
    state.AddPiece(absl::StrCat("k", 100 + i), {kEach * size_},
                   {{kEach * rank_}, {kEach}}, AtAddress(values_.data()));
  }
  const std::vector<std::string> warnings =
      Ok(Save(comm_, run(), 1, state,
              {.args = {{"k.*", {.dtype = DType::kBF16}}}, .durable = false}))
          .warnings;
  ASSERT_EQ(warnings.size(), 21u);
  EXPECT_THAT(warnings[19], HasSubstr("\"k119\": 2 of "));
  EXPECT_THAT(warnings[20], HasSubstr("values of at least 5 more keys by"));
}

TEST_F(LostValuesTest, KeysOfOneRankEachAreCountedExactlyWhileTheyAreFew) {
  values_[3] = 1e300;
  State state;
  for (int i = 0; i < 9; ++i) {
    state.AddPiece(absl::StrCat("rank", rank_, "/k", i), {kEach},
                   {{0}, {kEach}}, AtAddress(values_.data()));
  }
  const std::vector<std::string> warnings =
      Ok(Save(comm_, run(), 1, state,
              {.args = {{".*", {.dtype = DType::kBF16}}}, .durable = false}))
          .warnings;
  const auto tells_values = [](const std::string& warning) {
    return absl::StrContains(warning, "f64 values");
  };
  EXPECT_EQ(std::ranges::count_if(warnings, tells_values),
            std::min(9 * size_, 20));
  const int untold = 9 * size_ - 20;
  if (untold > 0) {
    EXPECT_THAT(warnings, Contains(HasSubstr(absl::StrCat("values of ", untold,
                                                          " more keys by"))));
  }
}

TEST_F(LostValuesTest, SavesInTheBackground) {
  for (const SnapshotMode snapshot :
       {SnapshotMode::kInCall, SnapshotMode::kLazy}) {
    values_.assign(kEach, 1.5);
    AsyncSaver saver(comm_, {.snapshot = snapshot});
    Ok(saver.Save(run(), 1, MakeState(), AsSmallFloats(true)));
    ExpectTold(Ok(saver.Wait()).value().warnings, {});
    PutLargeValues();
    Status refused =
        saver.Save(run(), 2, MakeState(), AsSmallFloats(true)).status();
    EXPECT_EQ(refused.ok(), snapshot == SnapshotMode::kLazy);
    if (refused.ok()) refused = saver.WaitForSnapshot();
    ExpectRefused(refused, LargeOfStep(2));
    EXPECT_FALSE(saver.is_pending());
    ExpectStepIsThere(1, 1.5);
    // The saver goes on.
    Ok(saver.Save(run(), 3, MakeState(), AsSmallFloats()));
    ASSERT_EQ(saver.WaitForSnapshot(), absl::OkStatus());
    values_.assign(kEach, -1);
    ExpectTold(Ok(saver.Wait()).value().warnings, {LargeOfStep(3)});
    ASSERT_EQ(saver.Close(), absl::OkStatus());
  }
}

TEST_F(LostValuesTest, ARestoreWarnsOrIsStrict) {
  PutLargeValues();
  Ok(Save(comm_, run(), 1, MakeState(), {.durable = false}));
  std::vector<float> found(kEach);
  State state;
  state.AddPiece("m/w", {kEach * size_}, {{kEach * rank_}, {kEach}},
                 AtAddress(found.data()));
  const std::string need = absl::StrCat(
      "restore \"", StepFile(1, ""), "\": \"m/w\": 2 of ", kEach * size_,
      " f64 values are too large for f32 and become infinite (such as "
      "1e+300)");
  const RestoreResult result =
      Ok(Restore(comm_, run(), 1, state, {.allow_dtype_cast = true}));
  ExpectTold(result.warnings, {need});
  EXPECT_THAT(result.ToString(), HasSubstr("\nwarning: " + need));
  ExpectRefused(Restore(comm_, run(), 1, state,
                        {.allow_dtype_cast = true, .strict_dtype = true})
                    .status(),
                need);
  // Where nothing is lost, it is no matter.
  std::vector<double> exact(kEach);
  State as_saved;
  as_saved.AddPiece("m/w", {kEach * size_}, {{kEach * rank_}, {kEach}},
                    AtAddress(exact.data()));
  ExpectTold(Ok(Restore(comm_, run(), 1, as_saved,
                        {.allow_dtype_cast = true, .strict_dtype = true}))
                 .warnings,
             {});
}

TEST_F(LostValuesTest, ARestoreThatReadsOnceCountsOnEachRank) {
  PutLargeValues();
  Ok(Save(comm_, run(), 1, MakeState(), {.durable = false}));
  for (const ReadSharing sharing :
       {ReadSharing::kEachRank, ReadSharing::kOnce}) {
    std::vector<float> found(kEach * size_);
    State state;
    state.AddReplicated("m/w", {kEach * size_}, AtAddress(found.data()));
    ExpectTold(
        Ok(Restore(comm_, run(), 1, state,
                   {.allow_dtype_cast = true, .read_sharing = sharing}))
            .warnings,
        {absl::StrCat("restore \"", StepFile(1, ""), "\": \"m/w\": ", 2 * size_,
                      " of ", kEach * size_ * size_,
                      " f64 values are too large for f32 and become infinite "
                      "(such as 1e+300)")});
  }
}

TEST_F(LostValuesTest, ValuesRestoredWithoutMemory) {
  PutLargeValues();
  Ok(Save(comm_, run(), 1, MakeState(), {.durable = false}));
  const std::vector<ArrayRestoreArgsFor> args = {
      {"m/w", {.dtype = DType::kI32}}, {".*", {.skip = true}}};
  const RestoredValues values = Ok(RestoreValues(comm_, run(), 1, args));
  ASSERT_EQ(values.result.warnings.size(), 1u);
  EXPECT_THAT(values.result.warnings[0],
              HasSubstr("f64 values are outside the range of i32"));
  ExpectRefused(
      RestoreValues(comm_, run(), 1, args, {.strict_dtype = true}).status(),
      "f64 values are outside the range of i32");
}

class Doubled : public TransformFunction {
 public:
  std::string description() const override { return "doubled"; }
  StatusOr<ArrayForm> Result(
      const std::vector<ArrayForm>& inputs) const override {
    return inputs[0];
  }
  StatusOr<std::vector<Box>> Needs(const std::vector<ArrayForm>&,
                                   const Box& box) const override {
    return std::vector<Box>{box};
  }
  Status Compute(const std::vector<Tensor>& inputs, const std::vector<Box>&,
                 const Box&, Tensor& result) const override {
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      result.values<double>()[i] = 2 * inputs[0].values<double>()[i];
    }
    return absl::OkStatus();
  }
};

TEST_F(LostValuesTest, ValuesThatAreComputed) {
  if (rank_ == size_ - 1) values_[3] = 2e38;  // is a f32, and twice is none
  Ok(Save(comm_, run(), 1, MakeState(), {.durable = false}));
  std::vector<float> found(kEach);
  State state;
  state.AddPiece("x", {kEach * size_}, {{kEach * rank_}, {kEach}},
                 AtAddress(found.data()));
  RestoreOptions options = {
      .allow_dtype_cast = true,
      .args = {{"x",
                {.transform =
                     Transform::Apply(std::make_shared<Doubled>(), {"m/w"})}}}};
  const std::string need = absl::StrCat(
      "restore \"", StepFile(1, ""), "\": \"x\": 1 of ", kEach * size_,
      " f64 values is too large for f32 and becomes infinite (such as 4e+38)");
  ExpectTold(Ok(Restore(comm_, run(), 1, state, options)).warnings, {need});
  options.strict_dtype = true;
  ExpectRefused(Restore(comm_, run(), 1, state, options).status(), need);
}

TEST_F(LostValuesTest, Copies) {
  PutLargeValues();
  Ok(Save(comm_, run(), 1, MakeState(), {.durable = false}));
  const std::string to = dir_.File("copy");
  CopyOptions options;
  options.save = AsSmallFloats();
  const CopyResult copied =
      Ok(CopyCheckpoint(comm_, run(), 1, to, std::nullopt, options));
  ASSERT_EQ(copied.saved.warnings.size(), 1u);
  EXPECT_THAT(copied.saved.warnings[0],
              HasSubstr(absl::StrCat("\"m/w\": 3 of ", kEach * size_)));
  options.save.strict_dtype = true;
  ExpectRefused(CopyCheckpoint(comm_, run(), 1, to, 2, options).status(),
                "\"m/w\": 3 of ");
  EXPECT_FALSE(std::filesystem::exists(to + "/step_00000002"));
}

TEST_F(LostValuesTest, TheOptionIsTheSameOnAllRanks) {
  if (size_ == 1) return;
  const Status status =
      Save(comm_, run(), 1, MakeState(), AsSmallFloats(rank_ == 1)).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the option strict_dtype differs"));
  log_.clear();
}

}  // namespace
}  // namespace belay::lost_values_test
