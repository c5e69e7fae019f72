#include "plan/shared_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace belay::shared_targets_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SharedTargetsTest : public ::testing::Test {
 protected:
  // A value of [first, end) of the memory.
  void Add(const std::string& key, int64_t first, int64_t end) {
    AddBox(key, first, {end - first});
  }

  void AddBox(const std::string& key, int64_t first, const Shape& shape,
              const Shape& strides = {}) {
    shards_.push_back({.key = key,
                       .dtype = DType::kF64,
                       .global_shape = shape,
                       .box = WholeBox(shape),
                       .data = memory_.data() + first,
                       .strides = strides});
  }

  // Reads the shards, whose values are `value` and their place in the memory.
  Status Read(const std::vector<double>& values) {
    auto shared = SetApart(shards_);
    EXPECT_EQ(shared.status(), absl::OkStatus());
    num_apart_ = shared->size();
    for (size_t i = 0; i < shards_.size(); ++i) {
      auto* data = static_cast<double*>(shards_[i].data);
      std::iota(data, data + NumElements(shards_[i].box.shape), values[i]);
    }
    return PutTogether(*shared, "restore \"run\"", shards_);
  }

  std::vector<double> memory_ = std::vector<double>(10, -1);
  std::vector<Shard> shards_;
  size_t num_apart_ = 0;
};

TEST_F(SharedTargetsTest, ThoseThatTouchShareNothing) {
  Add("b", 5, 10);
  Add("a", 0, 5);
  Add("none", 3, 3);
  EXPECT_EQ(Read({50, 7, 0}), absl::OkStatus());
  EXPECT_EQ(num_apart_, 0u);
  EXPECT_THAT(memory_, ElementsAre(7, 8, 9, 10, 11, 50, 51, 52, 53, 54));
}

TEST_F(SharedTargetsTest, EqualValuesAreFine) {
  Add("tied", 2, 6);
  Add("all", 0, 10);
  Add("also", 2, 6);
  EXPECT_EQ(Read({2, 0, 2}), absl::OkStatus());
  EXPECT_EQ(num_apart_, 2u);
  EXPECT_THAT(memory_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  for (const Shard& shard : shards_) {
    EXPECT_GE(shard.data, memory_.data());
    EXPECT_LT(shard.data, memory_.data() + memory_.size());
  }
}

TEST_F(SharedTargetsTest, AChainOfParts) {
  Add("c", 5, 10);
  Add("b", 3, 7);
  Add("a", 0, 4);
  EXPECT_EQ(Read({5, 3, 0}), absl::OkStatus());
  EXPECT_THAT(memory_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  const Status differ = Read({5, 4, 0});
  EXPECT_TRUE(absl::IsFailedPrecondition(differ));
  EXPECT_THAT(
      std::string(differ.message()),
      HasSubstr("restore \"run\": \"a\" and \"b\" have the same memory, "
                "and different values are stored for them"));
}

TEST_F(SharedTargetsTest, OneKeyMayHaveItTwice) {
  Add("a", 0, 10);
  Add("a", 0, 10);
  EXPECT_EQ(Read({0, 0}), absl::OkStatus());
  EXPECT_EQ(num_apart_, 0u);
}

// The last piece lies in that of another key, although one of its own key ends
// later.
TEST_F(SharedTargetsTest, PiecesOfTwoKeys) {
  Add("a", 0, 8);
  Add("b", 1, 10);
  Add("b", 2, 4);
  EXPECT_EQ(Read({0, 1, 2}), absl::OkStatus());
  EXPECT_EQ(num_apart_, 2u);
  const Status differ = Read({0, 1, 3});
  EXPECT_TRUE(absl::IsFailedPrecondition(differ)) << differ;
}

// As a matrix and its transpose do.
TEST_F(SharedTargetsTest, TheOrderOfTheAxesDoesNotMatter) {
  AddBox("w", 0, {3, 2}, {2, 1});
  AddBox("transposed", 0, {2, 3}, {1, 2});
  EXPECT_EQ(Read({0, 0}), absl::OkStatus());
  EXPECT_EQ(num_apart_, 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(Read({0, 1})));
}

TEST_F(SharedTargetsTest, OthersMayLieInGaps) {
  AddBox("even", 0, {5}, {2});
  AddBox("odd", 1, {5}, {2});
  const auto shared = SetApart(shards_);
  ASSERT_EQ(shared.status(), absl::OkStatus());
  EXPECT_TRUE(shared->empty());
}

TEST_F(SharedTargetsTest, Texts) {
  std::string text;
  for (const char* const key : {"a", "b"}) {
    shards_.push_back({.key = key, .dtype = DType::kString, .text = &text});
  }
  for (const char* const second : {"one", "two"}) {
    auto shared = SetApart(shards_);
    ASSERT_EQ(shared.status(), absl::OkStatus());
    ASSERT_EQ(shared->size(), 1u);
    *shards_[0].text = "one";
    *shards_[1].text = second;
    EXPECT_EQ(PutTogether(*shared, "restore", shards_).ok(),
              std::string("one") == second);
    EXPECT_EQ(shards_[1].text, &text);
  }
}

}  // namespace
}  // namespace belay::shared_targets_test
