#include "storage/conversion_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "box_oracle.h"
#include "core/element_conversion.h"
#include "core/strided_copy.h"
#include "sanitizers.h"
#include "storage/file_system.h"

namespace belay::conversion_buffer_test {
namespace {

Shard MakeShard(DType dtype, const Shape& shape, const Box& box, void* data) {
  return {.key = "w",
          .dtype = dtype,
          .global_shape = shape,
          .box = box,
          .data = data};
}

TEST(ConversionBufferTest, WhatIsStoredAsItIsKeepsItsMemory) {
  std::vector<float> floats(12);
  std::string text = "four";
  const std::vector<Shard> shards = {
      MakeShard(DType::kF32, {6, 2}, {{0, 0}, {6, 2}}, floats.data()),
      {.key = "t", .dtype = DType::kString, .text = &text}};
  // Another shape alone needs no memory: boxes are counted from the same
  // corner.
  const std::vector<StoredForm> forms = {{DType::kF32, {4, 2}},
                                         {DType::kString, {}}};
  ConversionBuffer buffer;
  for (const FormedShards& formed :
       {FormedShards{shards, {}}, FormedShards{shards, forms}}) {
    const Shape stored = formed.forms.empty() ? Shape{6, 2} : Shape{4, 2};
    const Box part = {{1, 0}, {2, 2}};
    EXPECT_EQ(StagedBytes(formed, 0, part), 0);
    EXPECT_EQ(StoredElementSize(formed, 0), 4);
    for (const ShardMemory& memory :
         {StageForSave(formed, 0, part, buffer), OwnMemory(formed, 0)}) {
      EXPECT_EQ(memory.data, reinterpret_cast<char*>(floats.data()));
      EXPECT_EQ(memory.element_size, 4);
      EXPECT_EQ(memory.box, shards[0].box);
      EXPECT_EQ(memory.array, stored);
    }
    const ShardMemory words = StageForSave(formed, 1, {{1}, {2}}, buffer);
    EXPECT_EQ(words.data, text.data());
    EXPECT_EQ(words.array, Shape({4}));
  }
  EXPECT_EQ(buffer.most_bytes(), 0);
}

TEST(ConversionBufferTest, PartsOfARoundLieSideBySide) {
  std::vector<float> floats = {1, -2.5f, 3.00390625f, 1e-45f};
  const std::vector<Shard> shards = {
      MakeShard(DType::kF32, {8, 2}, {{4, 0}, {2, 2}}, floats.data())};
  const std::vector<StoredForm> forms = {{DType::kBF16, {8, 2}}};
  const FormedShards formed{shards, forms};
  ConversionBuffer buffer;
  ASSERT_TRUE(buffer.Start(8, "w").ok());
  const ShardMemory right = StageForSave(formed, 0, {{4, 1}, {2, 1}}, buffer);
  const ShardMemory left = StageForSave(formed, 0, {{4, 0}, {2, 1}}, buffer);
  EXPECT_EQ(left.data, right.data + 4);
  EXPECT_EQ(left.element_size, 2);
  EXPECT_EQ(left.box, (Box{{4, 0}, {2, 1}}));
  EXPECT_EQ(left.array, Shape({8, 2}));
  const auto* bits = reinterpret_cast<const uint16_t*>(right.data);
  EXPECT_THAT(std::vector<uint16_t>(bits, bits + 4),
              ::testing::ElementsAre(0xc020, 0, 0x3f80, 0x4040));
  EXPECT_EQ(floats[1], -2.5f);
}

TEST(ConversionBufferTest, ARoundGetsRoomForWhatIsConvertedInIt) {
  const std::vector<Shard> shards = {
      MakeShard(DType::kF32, {100}, {{0}, {100}}, nullptr),
      MakeShard(DType::kI32, {100}, {{0}, {100}}, nullptr)};
  const std::vector<StoredForm> forms = {{DType::kF64, {100}},
                                         {DType::kI32, {100}}};
  const FormedShards formed{shards, forms};
  const auto order = [](int32_t shard, int32_t round, int64_t length) {
    return WriteOrder{.shard = shard, .round = round, .box = {{0}, {length}}};
  };
  const std::vector<WriteOrder> orders = {order(0, 3, 10), order(1, 3, 50),
                                          order(0, 3, 5), order(0, 4, 100)};
  const auto room = [&](size_t first, int64_t most_bytes) {
    ConversionBuffer buffer;
    EXPECT_TRUE(
        StartRound(formed, std::span(orders).subspan(first), most_bytes, buffer)
            .ok());
    return buffer.most_bytes();
  };
  EXPECT_EQ(room(0, INT64_MAX), 120);
  EXPECT_EQ(room(0, 100), 100);
  EXPECT_EQ(room(1, INT64_MAX), 40);
  EXPECT_EQ(room(3, INT64_MAX), 800);
  EXPECT_EQ(room(4, INT64_MAX), 0);
}

TEST(ConversionBufferTest, MemoryIsUsedAgain) {
  ConversionBuffer buffer;
  ASSERT_TRUE(buffer.Start(1000, "w").ok());
  const char* const memory = buffer.Take(600);
  EXPECT_EQ(buffer.Take(400), memory + 600);
  ASSERT_TRUE(buffer.Start(1000, "w").ok());
  EXPECT_EQ(buffer.Take(1), memory);
  ASSERT_TRUE(buffer.Start(10, "w").ok());
  EXPECT_EQ(buffer.Take(10), memory);
  ASSERT_TRUE(buffer.Start(2000, "w").ok());
  EXPECT_EQ(buffer.most_bytes(), 2000);
}

TEST(ConversionBufferTest, RoomLiesInItsPagesAsTheFileDoes) {
  ConversionBuffer buffer;
  for (const int64_t bytes : {100, 5000, 70'000, 300}) {
    for (const int64_t offset : {0, 1, 16, 4095, 4096, 1'000'000'007}) {
      ASSERT_TRUE(buffer.Start(bytes, "w", offset).ok());
      char* const memory = buffer.Take(bytes);
      std::fill_n(memory, bytes, 'x');
      const auto address = reinterpret_cast<uintptr_t>(memory);
      EXPECT_EQ(static_cast<int64_t>(address % kPlaces), offset % kPlaces);
    }
  }
}

TEST(ConversionBufferTest, NoMemoryIsAnError) {
  if (!testing::kCanRunOutOfMemory) GTEST_SKIP() << testing::kEndsWithoutMemory;
  ConversionBuffer buffer;
  const Status status = buffer.Start(int64_t{1} << 61, "w");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "no memory for 2305843009213693952 bytes to stage \"w\"");
}

// A small number that tells the element from its neighbours.
double ValueAt(const Position& element) {
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

bool IsWithin(const Position& element, const Shape& shape) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (element[axis] >= shape[axis]) return false;
  }
  return true;
}

// Puts into the tiles of the stored part what a restore reads, in tiles.
void RestoreByTiles(const FormedShards& formed, Rng& rng) {
  const StoredForm& form = formed.forms[0];
  const Box part = StoredPart(formed.shards[0].box, form.shape);
  EXPECT_EQ(CheckBox(part, form.shape), absl::OkStatus());
  ForEachTile(part, Draw(rng, 1, 9), [&](const Box& tile) {
    ConversionBuffer buffer;
    ASSERT_TRUE(buffer.Start(StoredBytes(formed, 0, tile), "w").ok());
    const ShardMemory memory = RoomFor(formed, 0, tile, buffer);
    const Shard read =
        MakeShard(form.dtype, form.shape, memory.box, memory.data);
    for (const Position& element : Elements(tile)) {
      PutNumber(read, OffsetIn(memory.box, element), ValueAt(element));
    }
    HandOver(formed, 0, tile, memory);
  });
}

TEST(ConversionBufferTest, HandsOverEveryElementThatIsStored) {
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
        MakeShard(kDTypes[Draw(rng, 0, 5)], shape, box, memory.data());
    const std::vector<Position> elements = Elements(box);
    for (size_t i = 0; i < elements.size(); ++i) {
      PutNumber(wanted, i, kUntouched);
    }
    RestoreByTiles({std::span(&wanted, 1), std::span(&form, 1)}, rng);
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

// What a save stages is what a restore of the same form reads.
TEST(ConversionBufferTest, StagesForSaveWhatLiesInThePart) {
  Rng rng(12);
  for (int round = 0; round < 2000; ++round) {
    const Shape shape = DrawShape(rng, 4, 6);
    const Box box = DrawBox(rng, shape);
    std::vector<std::byte> memory(NumElements(box.shape) * 8);
    const Shard own = MakeShard(DType::kF32, shape, box, memory.data());
    const std::vector<Position> elements = Elements(box);
    for (size_t i = 0; i < elements.size(); ++i) {
      PutNumber(own, i, ValueAt(elements[i]));
    }
    const StoredForm form = {DType::kI16, shape};
    const FormedShards formed{std::span(&own, 1), std::span(&form, 1)};
    ForEachTile(box, Draw(rng, 1, 9), [&](const Box& part) {
      ConversionBuffer buffer;
      ASSERT_TRUE(buffer.Start(StagedBytes(formed, 0, part), "w").ok());
      const ShardMemory staged = StageForSave(formed, 0, part, buffer);
      const Shard copy = MakeShard(DType::kI16, shape, part, staged.data);
      const std::vector<Position> inside = Elements(part);
      for (size_t i = 0; i < inside.size(); ++i) {
        ASSERT_EQ(NumberAt(copy, i), ValueAt(inside[i]));
      }
    });
  }
}

}  // namespace
}  // namespace belay::conversion_buffer_test
