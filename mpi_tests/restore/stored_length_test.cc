// Containers of numbers, which take the stored length, and what does not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/arrays/tensor.h"
#include "belay/checkpoint.h"
#include "values.h"

namespace belay::stored_length_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;

std::vector<double> Counting(size_t length) {
  std::vector<double> values(length);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

class StoredLengthTest : public testing::CheckpointTest {
 protected:
  void SaveVector(std::vector<double> values, int64_t step = 1) {
    State state;
    state.Add("v", values);
    Ok(Save(comm_, run(), step, state));
  }
  void ExpectRefused(const StatusOr<RestoreResult>& result,
                     absl::StatusCode code, const std::string& text) {
    EXPECT_EQ(result.status().code(), code) << result.status();
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(text));
    EXPECT_TRUE(testing::IsSameEverywhere(result.status().ToString()));
  }
};

TEST_F(StoredLengthTest, AVectorOfAState) {
  SaveVector(Counting(100));
  // Ranks need not have the same length before.
  std::vector<double> found(static_cast<size_t>(rank_));
  State state;
  state.Add("v", found);
  const RestoreResult restored = Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(found, Counting(100));
  EXPECT_THAT(restored.conversions, IsEmpty());
  SaveVector({}, 2);
  Ok(Restore(comm_, run(), 2, state));
  EXPECT_THAT(found, IsEmpty());
  // The same State goes on with what the vector is now.
  found = Counting(7);
  Ok(Save(comm_, run(), 3, state));
  found.clear();
  Ok(Restore(comm_, run(), kLatestStep, state));
  EXPECT_EQ(found, Counting(7));
}

TEST_F(StoredLengthTest, WithAPlanCacheTheLengthMayChange) {
  std::vector<double> values = Counting(3);
  State state;
  state.Add("v", values);
  PlanCache cache;
  for (const size_t length : {3, 3, 50000, 50000, 2}) {
    values = Counting(length);
    values.shrink_to_fit();
    Ok(Save(comm_, run(), 1, state, {.overwrite = true, .cache = &cache}));
    values.clear();
    Ok(Restore(comm_, run(), 1, state));
    EXPECT_EQ(values, Counting(length));
  }
}

TEST_F(StoredLengthTest, OtherValuesBesideIt) {
  SaveVector(Counting(5));
  std::vector<double> values;
  int64_t absent = 3;
  State state;
  state.Add("absent", absent);
  state.Add("v", values);
  const RestoreResult restored =
      Ok(Restore(comm_, run(), 1, state,
                 {.missing = MismatchPolicy::kCollect,
                  .unexpected = MismatchPolicy::kError,
                  .mismatched = MismatchPolicy::kCollect}));
  EXPECT_EQ(values, Counting(5));
  EXPECT_THAT(restored.missing, ElementsAre("absent"));
  EXPECT_THAT(restored.mismatched, IsEmpty());
}

// What the program has fixed is an error, and with the option it is cut.
TEST_F(StoredLengthTest, ASpanKeepsItsLength) {
  SaveVector(Counting(6));
  std::vector<double> memory(4);
  State state;
  state.Add("v", std::span(memory));
  ExpectRefused(Restore(comm_, run(), 1, state),
                absl::StatusCode::kFailedPrecondition,
                "the stored shape differs (need [4], found [6]");
  Ok(Restore(comm_, run(), 1, state, {.allow_shape_mismatch = true}));
  EXPECT_EQ(memory, Counting(4));
}

// A restore of no element at all is never OK.
TEST_F(StoredLengthTest, NothingInCommonIsAnErrorWhateverIsAllowed) {
  SaveVector(Counting(6));
  std::vector<double> memory;
  std::span<double> none(memory);
  State state;
  state.Add("v", std::span(none));
  ExpectRefused(Restore(comm_, run(), 1, state, {.allow_shape_mismatch = true}),
                absl::StatusCode::kFailedPrecondition,
                "the stored shape differs (need [0], found [6]");
  Checkpoint objects(comm_, {{"v", none}});
  std::vector<double> all = Counting(6);
  Ok(Checkpoint(comm_, {{"v", all}}).SaveAs(dir_.File("objects")));
  const auto read =
      objects.Restore(dir_.File("objects"), {.allow_shape_mismatch = true});
  EXPECT_TRUE(absl::IsFailedPrecondition(read.status())) << read.status();
}

TEST_F(StoredLengthTest, ObjectsContainersAndHandlers) {
  std::vector<double> plain = Counting(9);
  std::map<std::string, std::vector<double>> map = {{"a", Counting(2)}};
  std::optional<std::vector<double>> maybe = Counting(4);
  Ok(Checkpoint(comm_, {{"plain", plain}, {"map", map}, {"maybe", maybe}})
         .Save(run()));
  State state;
  state.Add("map", map);
  state.Add("maybe", maybe);
  Ok(Save(comm_, dir_.File("state"), 1, state));

  std::vector<double> other(static_cast<size_t>(2 * rank_));
  std::map<std::string, std::vector<double>> other_map = {{"a", {}}};
  std::optional<std::vector<double>> other_maybe = std::vector<double>();
  Checkpoint restoring(
      comm_, {{"plain", other}, {"map", other_map}, {"maybe", other_maybe}});
  const LoadStatus status = Ok(restoring.Restore(run()));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus()) << status.ToString();
  EXPECT_EQ(other, Counting(9));
  EXPECT_EQ(other_map, map);
  EXPECT_EQ(other_maybe, maybe);

  other_map = {{"b", Counting(1)}};
  other_maybe.reset();
  State wanted;
  wanted.Add("map", other_map);
  wanted.Add("maybe", other_maybe);
  Ok(Restore(comm_, dir_.File("state"), 1, wanted));
  EXPECT_EQ(other_map, map);
  EXPECT_EQ(other_maybe, maybe);
}

TEST_F(StoredLengthTest, AnotherDTypeIsAnErrorUntilItIsAllowed) {
  SaveVector(Counting(6));
  std::vector<float> found = {-1};
  Checkpoint objects(comm_, {{"v", found}});
  std::vector<double> all = Counting(6);
  Ok(Checkpoint(comm_, {{"v", all}}).SaveAs(dir_.File("objects")));
  const auto read = objects.Restore(dir_.File("objects"));
  EXPECT_TRUE(absl::IsFailedPrecondition(read.status()));
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("(need f32 [6], found f64 [6])"));
  EXPECT_THAT(found, ElementsAre(-1)) << "nothing was read";
  Ok(objects.Restore(dir_.File("objects"), {.allow_dtype_cast = true}));
  EXPECT_EQ(found, std::vector<float>(all.begin(), all.end()));
}

TEST_F(StoredLengthTest, AValueOfEachRank) {
  std::vector<int32_t> mine(3, rank_);
  double number = 10.0 + rank_;
  State state;
  state.AddPerRank("mine", mine);
  state.AddPerRank("number", number);
  Ok(Save(comm_, run(), 1, state));
  mine.clear();
  number = 0;
  Ok(Restore(comm_, run(), 1, state,
             {.unexpected = MismatchPolicy::kError,
              .mismatched = MismatchPolicy::kWarn}));
  EXPECT_EQ(mine.size(), 3);
  EXPECT_THAT(mine, Each(rank_));
  EXPECT_EQ(number, 10.0 + rank_);
  // Others may have more of their own.
  mine.assign(static_cast<size_t>(3 + (rank_ == 0)), rank_);
  Ok(Save(comm_, run(), 2, state));
  mine.clear();
  Ok(Restore(comm_, run(), 2, state));
  EXPECT_EQ(mine.size(), 3 + (rank_ == 0));
  EXPECT_THAT(mine, Each(rank_));
}

// Some ranks would get nothing, or some of what is stored would be dropped.
TEST_F(StoredLengthTest, ValuesOfAnotherNumberOfRanksAreRefused) {
  std::vector<int32_t> all(static_cast<size_t>(3 * (size_ + 1)), 1);
  State stored;
  stored.AddReplicated("mine", {size_ + 1, 3}, all);
  Ok(Save(comm_, run(), 1, stored));
  std::vector<int32_t> mine(3);
  State state;
  state.AddPerRank("mine", mine);
  for (const bool allow : {false, true}) {
    ExpectRefused(
        Restore(comm_, run(), 1, state, {.allow_shape_mismatch = allow}),
        absl::StatusCode::kFailedPrecondition, "mine");
  }
}

TEST_F(StoredLengthTest, ATensorThatWasMovedFromIsAnError) {
  Tensor tensor = Tensor::Of<float>({2}, {1, 2});
  State state;
  state.Add("t", tensor);
  const Tensor other = std::move(tensor);
  const Status status = Save(comm_, run(), 1, state).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("moved from"));
}

// What a handler lists is refused as well.
TEST_F(StoredLengthTest, AConstPartOfAContainerIsNotWritten) {
  const std::vector<double> values = Counting(4);
  std::map<std::string, std::span<const double>> map = {{"k", values}};
  State state;
  state.Add("map", map);
  Ok(Save(comm_, run(), 1, state));
  ExpectRefused(Restore(comm_, run(), 1, state),
                absl::StatusCode::kInvalidArgument, "is const");
  EXPECT_EQ(values, Counting(4));
}

TEST_F(StoredLengthTest, MemoryOfAPartThatGrowsIsNotWritten) {
  std::map<std::string, std::vector<double>> map = {{"a", Counting(4000)}};
  std::vector<double> head = Counting(2);
  State stored;
  stored.Add("map", map);
  stored.AddReplicated("head", {2}, head);
  Ok(Save(comm_, run(), 1, stored));
  map["a"].resize(2);
  State state;
  state.Add("map", map);
  state.AddReplicated("head", {2}, map["a"]);
  ExpectRefused(Restore(comm_, run(), 1, state),
                absl::StatusCode::kFailedPrecondition,
                "it lies in the memory of \"map/a\"");
}

TEST_F(StoredLengthTest, ATensorThatWasReplacedIsSavedAsItIs) {
  Tensor tensor = Tensor::Of<float>({2}, {1, 2});
  State state;
  state.Add("t", tensor);
  tensor = Tensor::Of<double>({3, 1}, {4, 5, 6});
  Ok(Save(comm_, run(), 1, state));
  std::fill_n(tensor.values<double>().begin(), 3, 0.0);
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_THAT(tensor.values<double>(), ElementsAre(4, 5, 6));
}

TEST_F(StoredLengthTest, WhatIsConstIsSavedAndNotRestored) {
  const std::vector<double> values = Counting(4);
  const std::string text = "fixed";
  const int64_t number = 3;
  const std::map<std::string, double> map = {{"k", 1}};
  State state;
  state.Add("v", values);
  state.Add("text", text);
  state.Add("number", number);
  state.Add("map", map);
  Ok(Save(comm_, run(), 1, state));
  Ok(Checkpoint(comm_, {{"v", values}, {"n", number}})
         .SaveAs(dir_.File("objects")));
  ExpectRefused(Restore(comm_, run(), 1, state),
                absl::StatusCode::kInvalidArgument,
                "the program's value is const");
  std::vector<double> found;
  std::string found_text;
  State writable;
  writable.Add("v", found);
  writable.Add("text", found_text);
  writable.Add("number", number);
  Ok(Restore(comm_, run(), 1, writable,
             {.args = {{"number", {.skip = true}}}}));
  EXPECT_EQ(found, values);
  EXPECT_EQ(found_text, text);
  Checkpoint objects(comm_, {{"v", found}, {"n", number}});
  const Status refused = objects.Restore(dir_.File("objects")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
}

}  // namespace
}  // namespace belay::stored_length_test
