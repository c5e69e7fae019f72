#include "types/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "box_oracle.h"
#include "types/element_conversion.h"

namespace belay {
namespace {

using ::testing::HasSubstr;

Shard MakeShard(const std::string& key, DType dtype, const Shape& shape,
                const Box& box, void* data) {
  return {.key = key,
          .dtype = dtype,
          .global_shape = shape,
          .box = box,
          .data = data};
}

void ExpectError(const Status& status, absl::StatusCode code,
                 const std::string& text) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(StagingTest, SavesConvertedCopiesOfOneDTypeOnly) {
  std::vector<float> floats = {1, -2.5f, 3.00390625f, 1e-45f};
  std::vector<double> doubles = {1, 2};
  std::string text = "t";
  const std::vector<Shard> shards = {
      MakeShard("d", DType::kF64, {2}, {{0}, {2}}, doubles.data()),
      MakeShard("f", DType::kF32, {8, 2}, {{4, 0}, {2, 2}}, floats.data()),
      {.key = "t", .dtype = DType::kString, .text = &text},
      MakeShard("none", DType::kF32, {8}, {{8}, {0}}, nullptr)};
  const auto staging = StageForSave(shards, DType::kF32, DType::kBF16);
  ASSERT_TRUE(staging.ok()) << staging.status();
  ASSERT_EQ(staging->shards.size(), 4);
  EXPECT_EQ(staging->bytes, 8);
  EXPECT_EQ(staging->shards[0].data, doubles.data());
  EXPECT_EQ(staging->shards[2].text, &text);
  const Shard& copy = staging->shards[1];
  EXPECT_EQ(copy.key, "f");
  EXPECT_EQ(copy.dtype, DType::kBF16);
  EXPECT_EQ(copy.global_shape, Shape({8, 2}));
  EXPECT_EQ(copy.box, shards[1].box);
  const auto* bits = static_cast<const uint16_t*>(copy.data);
  EXPECT_THAT(std::vector<uint16_t>(bits, bits + 4),
              ::testing::ElementsAre(0x3f80, 0xc020, 0x4040, 0));
  EXPECT_EQ(staging->shards[3].dtype, DType::kBF16);
  EXPECT_EQ(floats[1], -2.5f);
}

TEST(StagingTest, WhatIsStoredAsItIsWantedKeepsItsMemory) {
  std::vector<float> floats(12, -1);
  const Shard shard =
      MakeShard("w", DType::kF32, {6, 2}, {{0, 0}, {6, 2}}, floats.data());
  const Shard part =
      MakeShard("w", DType::kF32, {6, 2}, {{0, 0}, {3, 2}}, floats.data());
  for (const StoredForms& stored :
       {StoredForms{}, StoredForms{{"v", {DType::kF64, {1}}}},
        StoredForms{{"w", {DType::kF32, {6, 2}}}}}) {
    const auto staging = StageForRestore({shard}, stored);
    ASSERT_TRUE(staging.ok()) << staging.status();
    EXPECT_EQ(staging->shards[0].data, floats.data());
    EXPECT_EQ(staging->shards[0].global_shape, Shape({6, 2}));
    EXPECT_EQ(staging->bytes, 0);
    HandOver(*staging);
  }
  // Another shape alone needs no buffer where the box is stored whole.
  const auto smaller =
      StageForRestore({shard, part}, {{"w", {DType::kF32, {4, 2}}}});
  ASSERT_TRUE(smaller.ok()) << smaller.status();
  EXPECT_EQ(smaller->bytes, 32);
  EXPECT_NE(smaller->shards[0].data, floats.data());
  EXPECT_EQ(smaller->shards[1].data, floats.data());
  EXPECT_EQ(smaller->shards[1].global_shape, Shape({4, 2}));
}

TEST(StagingTest, ABoxThatIsNotStoredIsListedAsAnEmptyOne) {
  std::vector<float> floats(4, -1);
  const auto staging = StageForRestore(
      {MakeShard("w", DType::kF32, {8, 2}, {{6, 0}, {2, 2}}, floats.data())},
      {{"w", {DType::kF32, {6, 2}}}});
  ASSERT_TRUE(staging.ok()) << staging.status();
  ASSERT_EQ(staging->shards.size(), 1);
  EXPECT_TRUE(IsEmpty(staging->shards[0].box));
  EXPECT_EQ(CheckBox(staging->shards[0].box, {6, 2}), absl::OkStatus());
  EXPECT_EQ(staging->bytes, 0);
  HandOver(*staging);
  EXPECT_EQ(floats, std::vector<float>(4, -1));
}

TEST(StagingTest, RefusesWhatDoesNotConvert) {
  float value = 0;
  std::string text;
  const Shard number = MakeShard("w", DType::kF32, {}, {}, &value);
  const Shard words = {.key = "w", .dtype = DType::kString, .text = &text};
  ExpectError(StageForRestore({number}, {{"w", {DType::kC64, {}}}}).status(),
              absl::StatusCode::kFailedPrecondition,
              "stage \"w\": not convertible (need f32 [], found c64 [])");
  ExpectError(StageForRestore({number}, {{"w", {DType::kF32, {1}}}}).status(),
              absl::StatusCode::kFailedPrecondition,
              "(need f32 [], found f32 [1])");
  ExpectError(StageForRestore({words}, {{"w", {DType::kU8, {}}}}).status(),
              absl::StatusCode::kFailedPrecondition, "(need string []");
}

TEST(StagingTest, RefusesBoxesOutsideTheirArray) {
  std::vector<float> floats(4);
  const Shard outside =
      MakeShard("w", DType::kF32, {4}, {{2}, {3}}, floats.data());
  const Shard other_ndim =
      MakeShard("w", DType::kF32, {4}, {{0, 0}, {2, 2}}, floats.data());
  const Shard negative =
      MakeShard("w", DType::kF32, {-4}, {{0}, {0}}, floats.data());
  const auto save = [](const Shard& shard) {
    return StageForSave({shard}, DType::kF32, DType::kBF16).status();
  };
  const auto restore = [](const Shard& shard) {
    return StageForRestore({shard}, {{"w", {DType::kF64, {4}}}}).status();
  };
  for (const auto& stage : {std::function(save), std::function(restore)}) {
    ExpectError(stage(outside), absl::StatusCode::kOutOfRange, "stage \"w\"");
    ExpectError(stage(other_ndim), absl::StatusCode::kInvalidArgument, "stage");
    ExpectError(stage(negative), absl::StatusCode::kInvalidArgument, "stage");
  }
}

TEST(StagingTest, NoMemoryIsAnError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer ends the program instead";
#endif
  float value = 0;
  const Shape huge = {int64_t{1} << 58};
  ExpectError(StageForRestore(
                  {MakeShard("w", DType::kF32, huge, WholeBox(huge), &value)},
                  {{"w", {DType::kF64, huge}}})
                  .status(),
              absl::StatusCode::kResourceExhausted,
              "no memory for 2305843009213693952 bytes to convert \"w\"");
}

// A small number that tells the element from its neighbours.
double ValueAt(const Index& element) {
  int64_t value = 1;
  for (int64_t index : element) value = (value * 7 + index) % 13;
  return static_cast<double>(value);
}

void PutNumber(const Shard& shard, size_t place, double value) {
  auto* bytes = static_cast<std::byte*>(shard.data);
  ConvertElements(DType::kF64, &value, shard.dtype,
                  bytes + place * DTypeSize(shard.dtype), 1);
}

double NumberAt(const Shard& shard, size_t place) {
  double value = 0;
  const auto* bytes = static_cast<const std::byte*>(shard.data);
  ConvertElements(shard.dtype, bytes + place * DTypeSize(shard.dtype),
                  DType::kF64, &value, 1);
  return value;
}

bool IsWithin(const Index& element, const Shape& shape) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (element[axis] >= shape[axis]) return false;
  }
  return true;
}

// Puts into the listed box what a restore reads.
void PretendToRead(const Shard& listed) {
  const std::vector<Index> elements = Elements(listed.box);
  for (size_t i = 0; i < elements.size(); ++i) {
    ASSERT_TRUE(IsWithin(elements[i], listed.global_shape));
    PutNumber(listed, i, ValueAt(elements[i]));
  }
}

TEST(StagingTest, HandsOverEveryElementThatIsStored) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF64,
                               DType::kI16, DType::kU8,   DType::kF8E4M3};
  constexpr double kUntouched = 64;
  Rng rng(11);
  int64_t handed_over = 0, untouched = 0;
  for (int round = 0; round < 4000; ++round) {
    const Shape shape = DrawShape(rng, 4, 6);
    StoredForm form{.dtype = kDTypes[Draw(rng, 0, 5)], .shape = shape};
    for (int64_t& length : form.shape) {
      if (Draw(rng, 0, 1) == 0) length = Draw(rng, 0, 8);
    }
    const Box box = DrawBox(rng, shape);
    std::vector<std::byte> memory(NumElements(box.shape) * 8);
    const Shard wanted =
        MakeShard("w", kDTypes[Draw(rng, 0, 5)], shape, box, memory.data());
    const std::vector<Index> elements = Elements(box);
    for (size_t i = 0; i < elements.size(); ++i) {
      PutNumber(wanted, i, kUntouched);
    }
    const auto staging = StageForRestore({wanted}, {{"w", form}});
    ASSERT_TRUE(staging.ok()) << staging.status();
    PretendToRead(staging->shards[0]);
    HandOver(*staging);
    for (size_t i = 0; i < elements.size(); ++i) {
      const bool stored = IsWithin(elements[i], form.shape);
      ++(stored ? handed_over : untouched);
      ASSERT_EQ(NumberAt(wanted, i),
                stored ? ValueAt(elements[i]) : kUntouched);
    }
  }
  EXPECT_GT(handed_over, 10000);
  EXPECT_GT(untouched, 10000);
}

}  // namespace
}  // namespace belay
