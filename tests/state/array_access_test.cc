#include "state/array_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "belay/arrays/tensor.h"
#include "belay/state.h"
#include "plan/stored_values.h"
#include "state/stored_answer.h"

namespace belay::array_access_test {
namespace {

using ::testing::HasSubstr;
using Lengths = StoredLengths;

// Gives lengths as a restore does.
Status GiveLengths(const StoredLengths& stored, std::vector<Shard>& shards) {
  std::vector<FormerElements> former;
  const Status status = belay::GiveLengths(stored, shards, former);
  return status.ok() ? CheckAfterLengths(former, {}, shards) : status;
}

std::vector<Shard> ShardsOf(const State& state) {
  std::vector<Shard> shards;
  for (const Shard& shard : state.shards()) {
    shards.push_back(shard);
    EXPECT_EQ(FindElements(shards.back()), absl::OkStatus());
  }
  return shards;
}

TEST(ArrayAccessTest, ElementsAreFoundWhereTheyAreNow) {
  std::vector<float> values(3);
  Tensor tensor = Tensor::Of<float>({2}, {1, 2});
  State state;
  state.Add("values", values);
  state.Add("tensor", tensor);
  values.assign(1000, 2.5F);
  tensor = Tensor::Of<int32_t>({2, 2}, {1, 2, 3, 4});
  const std::vector<Shard> shards = ShardsOf(state);
  EXPECT_EQ(shards[0].data, values.data());
  EXPECT_EQ(shards[0].global_shape, Shape({1000}));
  EXPECT_EQ(shards[0].box, WholeBox({1000}));
  EXPECT_EQ(shards[1].data, tensor.data());
  EXPECT_EQ(shards[1].dtype, DType::kI32);
  EXPECT_EQ(shards[1].global_shape, Shape({2, 2}));
}

// Whatever a vector is added as, it may have moved when it is saved.
TEST(ArrayAccessTest, PiecesOfARangeAreFoundWhereTheyAreNow) {
  std::vector<float> values(6);
  State state;
  state.AddReplicated("whole", {2, 3}, values);
  state.AddPiece("piece", {9}, {{3}, {6}}, values);
  state.AddFlatRange("",
                     {{.key = "a", .global_shape = {2}},
                      {.key = "b", .global_shape = {3}, .begin = 3}},
                     0, 6, values);
  values.reserve(values.capacity() + 1000);
  values[0] = 1;
  const std::vector<Shard> shards = ShardsOf(state);
  ASSERT_EQ(shards.size(), 4);
  EXPECT_EQ(shards[0].data, values.data());
  EXPECT_EQ(shards[0].global_shape, Shape({2, 3}));
  EXPECT_EQ(shards[1].data, values.data());
  EXPECT_EQ(shards[1].box, (Box{{3}, {6}}));
  EXPECT_EQ(shards[2].data, values.data());
  EXPECT_EQ(shards[3].data, values.data() + 3);
  for (const Shard& shard : shards) EXPECT_FALSE(IsResizable(shard));
  values.push_back(2);
  for (Shard shard : state.shards()) {
    EXPECT_EQ(FindElements(shard),
              absl::InvalidArgumentError(
                  "list \"" + shard.key +
                  "\": its range has changed its length since it was added "
                  "(need 6 elements, found 7); make a new State for another "
                  "length"));
  }
}

TEST(ArrayAccessTest, AContainerTakesTheStoredLength) {
  std::vector<double> longer(2), shorter(5), same(3), absent(4);
  State state;
  state.Add("longer", longer);
  state.Add("shorter", shorter);
  state.Add("same", same);
  state.Add("absent", absent);
  std::vector<Shard> shards = ShardsOf(state);
  const Lengths stored = {{"longer", 100}, {"same", 3}, {"shorter", 0}};
  EXPECT_EQ(GiveLengths(stored, shards), absl::OkStatus());
  EXPECT_EQ(longer.size(), 100);
  EXPECT_EQ(shorter.size(), 0);
  EXPECT_EQ(absent.size(), 4);
  EXPECT_EQ(shards[0].data, longer.data());
  EXPECT_EQ(shards[0].box, WholeBox({100}));
  EXPECT_EQ(shards[1].global_shape, Shape({0}));
}

// The program has said how long these are.
TEST(ArrayAccessTest, ASpanKeepsItsLength) {
  std::vector<double> values(2);
  double array[2] = {};
  State state;
  state.Add("span", std::span(values));
  state.Add("array", array);
  state.AddReplicated("shaped", {2}, values);
  for (const Shard& shard : ShardsOf(state)) {
    EXPECT_FALSE(IsResizable(shard)) << shard.key;
  }
}

TEST(ArrayAccessTest, OnlyArraysOfOneAxisGiveALength) {
  std::vector<double> values(2);
  State state;
  state.Add("values", values);
  const std::vector<Shard> shards = ShardsOf(state);
  EXPECT_TRUE(TakesLength(shards[0], DType::kF32, {7}));
  EXPECT_FALSE(TakesLength(shards[0], DType::kF64, {7, 1}));
  EXPECT_FALSE(TakesLength(shards[0], DType::kF64, {}));
  EXPECT_FALSE(TakesLength(shards[0], DType::kString, {}));
}

TEST(ArrayAccessTest, OneContainerCannotTakeTwoLengths) {
  std::vector<float> values(2);
  State state;
  state.Add("a", values);
  state.Add("b", values);
  std::vector<Shard> shards = ShardsOf(state);
  const Status status = GiveLengths({{"a", 3}, {"b", 5}}, shards);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("restore \"a\": its container was added under another "
                        "key as well, which is stored with another length "
                        "(need [3], found [5])"));
}

// Memory that was added by its address is gone when its container grows.
TEST(ArrayAccessTest, MemoryOfAContainerThatGrowsIsNotWritten) {
  std::vector<float> values(8);
  State state;
  state.Add("values", values);
  state.AddReplicated("head", {2}, AtAddress(values.data() + 6));
  std::vector<Shard> shards = ShardsOf(state);
  EXPECT_EQ(GiveLengths({{"values", 8}}, shards), absl::OkStatus());
  const Status status = GiveLengths({{"values", 4000}}, shards);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("restore \"head\": it lies in the memory of \"values\""));
}

// What is listed later may lie in memory that was given up before.
TEST(ArrayAccessTest, MemoryThatWasGivenUpIsUsedAgain) {
  const auto memory = std::make_unique<std::byte[]>(300);
  std::byte* const begin = memory.get();
  const std::vector<FormerElements> former = {{begin, begin + 100, "a"},
                                              {begin + 20, begin + 40, "b"},
                                              {begin + 200, begin + 300, "c"}};
  const auto check = [&](int64_t offset, size_t listed_after) {
    std::vector<Shard> shards = {{.key = "x",
                                  .global_shape = {10},
                                  .box = {{0}, {10}},
                                  .data = begin + offset}};
    return std::string(
        CheckAfterLengths(former, {listed_after}, shards).message());
  };
  const auto in = [](const std::string& key) {
    return HasSubstr("it lies in the memory of \"" + key + "\"");
  };
  EXPECT_THAT(std::string(check(30, 0)), in("b"));
  EXPECT_THAT(std::string(check(30, 1)), in("b"));
  EXPECT_EQ(check(30, 2), "");
  EXPECT_THAT(std::string(check(95, 0)), in("a"));
  EXPECT_EQ(check(95, 1), "");
  EXPECT_EQ(check(100, 0), "");
  EXPECT_EQ(check(190, 0), "");
  EXPECT_THAT(std::string(check(191, 2)), in("c"));
}

// A container of at most four elements.
struct Short {
  using value_type = float;
  float* begin() { return elements; }
  float* end() { return elements + length; }
  void resize(size_t wanted) {
    if (wanted > 100) throw std::runtime_error("too long");
    length = std::min<size_t>(wanted, 4);
  }
  float elements[4] = {};
  size_t length = 1;
};

TEST(ArrayAccessTest, WhatAContainerRefusesIsAnError) {
  Short some;
  State state;
  state.Add("some", some);
  std::vector<Shard> shards = ShardsOf(state);
  EXPECT_EQ(GiveLengths({{"some", 3}}, shards), absl::OkStatus());
  EXPECT_EQ(some.length, 3);
  const Status kept = GiveLengths({{"some", 9}}, shards);
  EXPECT_EQ(kept.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(kept.message()), HasSubstr("(need 9, found 4)"));
  EXPECT_EQ(GiveLengths({{"some", 101}}, shards).message(),
            "exception: too long");
  std::vector<double> values;
  State large;
  large.Add("values", values);
  shards = ShardsOf(large);
  EXPECT_EQ(GiveLengths({{"values", int64_t{1} << 60}}, shards),
            absl::ResourceExhaustedError(
                "no memory for \"values\": 1152921504606846976 elements of "
                "f64"));
}

TEST(ArrayAccessTest, WhatIsConstIsNotRestored) {
  const double number = 1;
  double other = 2;
  State state;
  state.Add("other", other);
  state.Add("number", number);
  ValuesToRead values;
  values.AddShard(Shard(state.shards()[0]), RestoreChoice());
  EXPECT_EQ(CheckWritable(values), absl::OkStatus());
  values.AddShard(Shard(state.shards()[1]), RestoreChoice());
  EXPECT_EQ(CheckWritable(values).message(),
            "restore \"number\": the program's value is const, and can only be "
            "saved; add one that can be written, or leave it out with "
            "RestoreArgs::skip");
}

}  // namespace
}  // namespace belay::array_access_test
