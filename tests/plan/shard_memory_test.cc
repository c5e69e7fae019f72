#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "plan/shards.h"
#include "store_testing.h"

namespace belay::shard_memory_test {
namespace {

struct Segment {
  int64_t memory, offset, bytes;
  friend bool operator==(const Segment&, const Segment&) = default;
};

std::vector<Segment> SegmentsOf(const ShardMemory& memory, const Box& box,
                                const Extent& extent) {
  std::vector<Segment> segments;
  ForEachSegment(memory, box, extent,
                 [&](char* data, int64_t offset, int64_t bytes) {
                   segments.push_back({data - memory.data, offset, bytes});
                 });
  if (!segments.empty()) {
    EXPECT_EQ(FileOffset(box, extent, memory.element_size), segments[0].offset);
  }
  return segments;
}

TEST(ShardMemoryTest, MemoryOfAnArray) {
  std::vector<float> values(6);
  const ShardMemory memory = GetMemory({.key = "w",
                                        .dtype = DType::kF32,
                                        .global_shape = {4, 3},
                                        .box = {{2, 0}, {2, 3}},
                                        .data = values.data()});
  EXPECT_EQ(memory.data, reinterpret_cast<char*>(values.data()));
  EXPECT_EQ(memory.element_size, 4);
  EXPECT_EQ(memory.box, (Box{{2, 0}, {2, 3}}));
  EXPECT_EQ(memory.array, Shape({4, 3}));
}

TEST(ShardMemoryTest, ATextIsAnArrayOfItsBytes) {
  std::string text = "seven b";
  const ShardMemory memory =
      GetMemory({.key = "t", .dtype = DType::kString, .text = &text});
  EXPECT_EQ(memory.data, text.data());
  EXPECT_EQ(memory.element_size, 1);
  EXPECT_EQ(memory.box, WholeBox({7}));
  EXPECT_EQ(memory.array, Shape({7}));
}

TEST(ShardMemoryTest, SegmentsOfAContiguousDataset) {
  char data[64] = {};
  const ShardMemory memory{data, 2, {{1, 2}, {3, 4}}, {5, 8}};
  const Extent whole{WholeBox({5, 8}), 1000};
  // Row r of the box begins at element 8 r + 2 of the array.
  EXPECT_EQ(SegmentsOf(memory, memory.box, whole),
            std::vector<Segment>({{0, 1020, 8}, {8, 1036, 8}, {16, 1052, 8}}));
  EXPECT_EQ(SegmentsOf(memory, {{2, 3}, {2, 2}}, whole),
            std::vector<Segment>({{10, 1038, 4}, {18, 1054, 4}}));
  EXPECT_EQ(SegmentsOf(memory, {{2, 3}, {0, 2}}, whole),
            std::vector<Segment>());
}

TEST(ShardMemoryTest, SegmentsOfAChunkThatIsTheShard) {
  char data[64] = {};
  const ShardMemory memory{data, 4, {{2, 0}, {2, 3}}, {4, 6}};
  EXPECT_EQ(SegmentsOf(memory, memory.box, {{{2, 0}, {2, 3}}, 77}),
            std::vector<Segment>({{0, 77, 24}}));
}

TEST(ShardMemoryTest, SegmentsOfAChunkThatOverhangs) {
  char data[64] = {};
  const ShardMemory memory{data, 1, {{0, 3}, {2, 2}}, {3, 5}};
  EXPECT_EQ(SegmentsOf(memory, memory.box, {{{0, 3}, {2, 3}}, 10}),
            std::vector<Segment>({{0, 10, 2}, {2, 13, 2}}));
}

TEST(ShardMemoryTest, AScalarIsOneSegment) {
  int64_t value = 0;
  const ShardMemory memory = GetMemory(
      {.key = "s", .dtype = DType::kI64, .global_shape = {}, .data = &value});
  EXPECT_EQ(SegmentsOf(memory, {}, {{}, 40}),
            std::vector<Segment>({{0, 40, 8}}));
}

// Sums an array that is cut into random boxes, each a shard of its own.
std::vector<uint32_t> SumOfPieces(const StoredArray& array, int64_t first,
                                  Random& random) {
  const auto blocks = static_cast<size_t>(NumBlocks(ArrayBytes(array)));
  std::vector<uint32_t> registers(blocks + first + 1, 0);
  Checksummer sum(registers);
  for (const Box& box : RandomTiling(WholeBox(IoShape(array)), 3, random)) {
    std::string piece = PieceOf(array, box);
    const ShardMemory memory{piece.data(), IoElementSize(array.dtype), box,
                             IoShape(array)};
    for (const Box& part : RandomTiling(box, 2, random)) {
      sum.Add(memory, part, first);
    }
    sum.Flush();  // `piece` ends here
  }
  EXPECT_EQ(std::count(registers.begin(), registers.begin() + first, 0), first);
  EXPECT_EQ(registers.back(), 0);
  return {registers.begin() + first, registers.end() - 1};
}

TEST(ChecksummerTest, SumsDoNotDependOnTheCut) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    for (const StoredArray& array : RandomArrays(random)) {
      const std::vector<uint32_t> need = ChecksumsOf(array);
      const std::vector<uint32_t> found =
          SumOfPieces(array, Uniform(0, 5, random), random);
      ASSERT_EQ(found.size(), need.size());
      for (size_t i = 0; i < need.size(); ++i) {
        EXPECT_EQ(StandardCrc(found[i], ArrayBytes(array)), need[i]) << seed;
      }
    }
  }
}

TEST(ChecksummerTest, ColumnsOfSeveralBlocksAndTwoArraysAtATime) {
  const StoredArray array{"big", DType::kF32, {700, 1100}};  // 2.94 MiB
  const std::vector<uint32_t> need = ChecksumsOf(array);
  ASSERT_EQ(need.size(), 3);
  std::vector<uint32_t> registers(6, 0);
  Checksummer sum(registers);
  const Box left{{0, 0}, {700, 301}}, right{{0, 301}, {700, 799}};
  for (const Box& box : {right, left}) {
    std::string piece = PieceOf(array, box);
    const ShardMemory memory{piece.data(), 4, box, array.shape};
    sum.Add(memory, box, 0);
    sum.Add(memory, box, 3);
    sum.Flush();
  }
  const int64_t last = 4 * 700 * 1100 - 2 * kBlockBytes;
  for (int64_t first : {0, 3}) {
    EXPECT_EQ(StandardCrc(registers[first], kBlockBytes), need[0]);
    EXPECT_EQ(StandardCrc(registers[first + 1], kBlockBytes), need[1]);
    EXPECT_EQ(StandardCrc(registers[first + 2], last), need[2]);
  }
}

// Its first block is that of the array behind it.
TEST(ChecksummerTest, AnEmptyArrayChangesNothing) {
  const std::string text = "abcd";
  const ShardMemory none{nullptr, 1, WholeBox({0}), {0}};
  const ShardMemory four{const_cast<char*>(text.data()), 1, WholeBox({4}), {4}};
  for (const bool flushes : {false, true}) {
    std::vector<uint32_t> registers(1, 0);
    Checksummer sum(registers);
    sum.Add(none, none.box, 0);
    if (flushes) sum.Flush();
    sum.Add(four, four.box, 0);
    sum.Flush();
    EXPECT_EQ(registers[0], CrcRegister(0, text.data(), text.size()));
  }
}

TEST(ChecksummerTest, WithoutRegistersNothingIsSummed) {
  Checksummer sum({});
  const ShardMemory memory{nullptr, 1, WholeBox({9}), {9}};
  sum.Add(memory, memory.box, 100);  // would crash if it looked
  sum.Flush();
}

}  // namespace
}  // namespace belay::shard_memory_test
