#include "belay/variable/partitioner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace belay::partitioner_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kKiB = 1024;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Shape Parts(const Partitioner& partitioner, const Shape& shape,
            DType dtype = DType::kF32, int axis = 0) {
  const StatusOr<Shape> parts = partitioner(shape, dtype, axis);
  EXPECT_TRUE(parts.ok()) << parts.status();
  return parts.value_or(Shape{-1});
}

std::string Error(const Partitioner& partitioner, const Shape& shape,
                  int axis = 0) {
  const StatusOr<Shape> parts = partitioner(shape, DType::kF32, axis);
  EXPECT_EQ(parts.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parts.status().message());
}

// The lengths along the first axis of the parts of an array.
std::vector<int64_t> Rows(int64_t length, int64_t parts) {
  std::vector<int64_t> rows;
  const std::vector<Box> boxes = PartitionBoxes({length}, {parts}).value();
  for (const Box& box : boxes) {
    rows.push_back(box.shape[0]);
  }
  return rows;
}

// TensorFlow: test_fixed_shards_partitioner.
TEST(FixedShardsPartitionerTest, Table) {
  EXPECT_THAT(Parts(FixedShards(2), {10, 3}), ElementsAre(2, 1));
  EXPECT_THAT(Parts(FixedShards(20), {10, 3}), ElementsAre(10, 1));
  EXPECT_THAT(Parts(FixedShards(4), {1, 3}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(FixedShards(2), {10, 3}, DType::kF32, 1),
              ElementsAre(1, 2));
}

// D12: TensorFlow's FixedShards takes any number, and cuts [0, 3] into 0 parts.
TEST(FixedShardsPartitionerTest, D12ChecksItsArgumentAndCutsEmptyArraysInOne) {
  EXPECT_EQ(Error(FixedShards(0), {10, 3}),
            "partition \"[10, 3]\": FixedShards: Argument `num_shards` must be "
            "positive. Received: 0");
  EXPECT_THAT(Error(FixedShards(-2), {10, 3}), HasSubstr("Received: -2"));
  EXPECT_THAT(Parts(FixedShards(2), {0, 3}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(FixedShards(2), {4, 0}), ElementsAre(1, 1));
}

// TensorFlow: test_min_size_partitioner.
TEST(MinSizePartitionerTest, Table) {
  EXPECT_THAT(Parts(MinSize(4, 2), {6, 1}), ElementsAre(2, 1));
  EXPECT_THAT(Parts(MinSize(4, 10), {6, 1}), ElementsAre(6, 1));
  EXPECT_THAT(Parts(MinSize(256 * kKiB, 16), {1024, 1024}), ElementsAre(16, 1));
  EXPECT_THAT(Parts(MinSize(256 * kKiB, 8), {1024, 1024}), ElementsAre(8, 1));
  EXPECT_THAT(Parts(MinSize(256 * kKiB, 100), {1024, 1024}),
              ElementsAre(16, 1));
  EXPECT_THAT(Parts(MinSize(256 * kKiB), {1024, 1024}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(MinSize(), {1024, 1024}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(MinSize(1000, 8), {100, 10}), ElementsAre(4, 1));
  EXPECT_THAT(Parts(MinSize(4096, 8), {4, 1024}, DType::kF32, 1),
              ElementsAre(1, 4));
}

// D12: TensorFlow rounds the number of parts up, so that parts can be smaller
// than the minimum. It gives 5, 3 and 7 parts here.
TEST(MinSizePartitionerTest, D12NeverGoesBelowTheMinimum) {
  EXPECT_THAT(Parts(MinSize(999, 8), {100, 10}), ElementsAre(4, 1));
  EXPECT_THAT(Parts(MinSize(8, 10), {5, 1}), ElementsAre(2, 1));
  EXPECT_THAT(Parts(MinSize(256, 50), {100}, DType::kString), ElementsAre(6));
}

TEST(MinSizePartitionerTest, OnePartWhereTheArrayIsSmallerThanTheMinimum) {
  EXPECT_THAT(Parts(MinSize(1000, 8), {3, 2}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(MinSize(kMax, 8), {3, 2}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(MinSize(1, 8), {0, 2}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(MinSize(1, 8), {2, 0}), ElementsAre(1, 1));
}

TEST(MinSizePartitionerTest, ChecksItsArguments) {
  EXPECT_EQ(Error(MinSize(0), {6, 1}),
            "partition \"[6, 1]\": MinSize: Argument `min_shard_bytes` must be "
            "positive. Received: 0");
  EXPECT_THAT(Error(MinSize(4, 0), {6, 1}),
              HasSubstr("Argument `max_shards` must be positive. Received: 0"));
  EXPECT_THAT(Error(MinSize(4, 1, -1), {6, 1}),
              HasSubstr("Argument `bytes_per_string` must be positive. "
                        "Received: -1"));
}

// TensorFlow: test_max_size_partitioner.
TEST(MaxSizePartitionerTest, Table) {
  EXPECT_THAT(Parts(MaxSize(4), {6, 1}), ElementsAre(6, 1));
  EXPECT_THAT(Parts(MaxSize(4, 2), {6, 1}), ElementsAre(2, 1));
  EXPECT_THAT(Parts(MaxSize(1024), {6, 1}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(MaxSize(64 * kKiB), {1000, 64}), ElementsAre(4, 1));
  EXPECT_THAT(Parts(MaxSize(1000), {10, 1024}), ElementsAre(10, 1));
  EXPECT_THAT(Parts(MaxSize(25), {7, 3}), ElementsAre(4, 1));
  EXPECT_THAT(Parts(MaxSize(50), {9, 3}), ElementsAre(3, 1));
  EXPECT_THAT(Parts(MaxSize(50), {10, 3}), ElementsAre(3, 1));
  EXPECT_THAT(Parts(MaxSize(8), {5}), ElementsAre(3));
  EXPECT_THAT(Parts(MaxSize(16 * kKiB), {1000}, DType::kString),
              ElementsAre(1));
  EXPECT_THAT(Rows(1000, 4), ElementsAre(250, 250, 250, 250));
}

// D12: TensorFlow takes max_shards=0 for "no limit".
TEST(MaxSizePartitionerTest, D12NoLimitIsNotALimitOfZero) {
  EXPECT_EQ(Error(MaxSize(4, 0), {6, 1}),
            "partition \"[6, 1]\": MaxSize: Argument `max_shards` must be "
            "positive. Received: 0");
  EXPECT_THAT(Parts(MaxSize(4, std::nullopt), {6, 1}), ElementsAre(6, 1));
}

// D12: TensorFlow divides by zero.
TEST(MaxSizePartitionerTest, D12CutsEmptyArraysInOne) {
  EXPECT_THAT(Parts(MaxSize(8), {0, 3}), ElementsAre(1, 1));
  EXPECT_THAT(Parts(MaxSize(8), {3, 0}), ElementsAre(1, 1));
}

TEST(MaxSizePartitionerTest, ChecksItsArguments) {
  EXPECT_THAT(Error(MaxSize(0), {6, 1}),
              HasSubstr("Argument `max_shard_bytes` must be positive. "
                        "Received: 0"));
  EXPECT_THAT(Error(MaxSize(4, -3), {6, 1}), HasSubstr("Received: -3"));
  EXPECT_THAT(Error(MaxSize(4, 1, 0), {6, 1}),
              HasSubstr("Argument `bytes_per_string` must be positive. "
                        "Received: 0"));
}

TEST(PartitionerTest, ChecksShapeAndAxis) {
  for (const Partitioner& partitioner :
       {FixedShards(2), MinSize(4, 8), MaxSize(4)}) {
    EXPECT_THAT(Error(partitioner, {6, 1}, 2),
                HasSubstr("no such axis (need 0 to 1, found 2)"));
    EXPECT_THAT(Error(partitioner, {6, 1}, -1), HasSubstr("found -1"));
    EXPECT_THAT(Error(partitioner, {}, 0),
                HasSubstr("no such axis: a scalar has none"));
    EXPECT_THAT(Error(partitioner, {6, -1}), HasSubstr("negative"));
  }
}

TEST(PartitionerTest, HugeArraysDoNotOverflow) {
  const Shape huge = {4, kMax / 4};
  EXPECT_THAT(Parts(MinSize(kMax, 8), huge, DType::kF64), ElementsAre(4, 1));
  EXPECT_THAT(Parts(MaxSize(kMax), huge, DType::kF64), ElementsAre(4, 1));
}

// Tries every number of parts, and measures what PartitionBoxes makes of it.
TEST(PartitionerTest, SizesAreTheBestOfAllNumbersOfParts) {
  std::mt19937_64 rng(7);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  for (int round = 0; round < 2000; ++round) {
    const Shape shape = {draw(1, 40), draw(1, 5)};
    const int64_t limit = draw(1, 500), max_shards = draw(1, 40);
    const int64_t row = shape[1] * 4;
    int64_t most_parts = 1, least_parts = shape[0];
    for (int64_t parts = shape[0]; parts >= 1; --parts) {
      const std::vector<int64_t> rows = Rows(shape[0], parts);
      if (parts <= max_shards && rows.back() * row >= limit) {
        most_parts = std::max(most_parts, parts);
      }
      if (rows.front() * row <= limit) least_parts = parts;
    }
    EXPECT_THAT(Parts(MinSize(limit, max_shards), shape),
                ElementsAre(most_parts, 1))
        << ShapeText(shape) << " " << limit << " " << max_shards;
    EXPECT_THAT(Parts(MaxSize(limit, max_shards), shape),
                ElementsAre(std::min(least_parts, max_shards), 1))
        << ShapeText(shape) << " " << limit << " " << max_shards;
  }
}

TEST(PartitionBoxesTest, TheFirstPartsAreOneLonger) {
  EXPECT_THAT(Rows(32, 3), ElementsAre(11, 11, 10));
  EXPECT_THAT(Rows(10, 3), ElementsAre(4, 3, 3));
  EXPECT_THAT(Rows(5, 3), ElementsAre(2, 2, 1));
  EXPECT_THAT(Rows(0, 1), ElementsAre(0));
}

TEST(PartitionBoxesTest, CutsSeveralAxesInRowMajorOrder) {
  EXPECT_THAT(
      PartitionBoxes({5, 2, 3}, {2, 1, 3}).value(),
      ElementsAre(Box{{0, 0, 0}, {3, 2, 1}}, Box{{0, 0, 1}, {3, 2, 1}},
                  Box{{0, 0, 2}, {3, 2, 1}}, Box{{3, 0, 0}, {2, 2, 1}},
                  Box{{3, 0, 1}, {2, 2, 1}}, Box{{3, 0, 2}, {2, 2, 1}}));
  EXPECT_THAT(PartitionBoxes({}, {}).value(), ElementsAre(Box{}));
}

TEST(PartitionBoxesTest, RefusesPartsThatDoNotFit) {
  const auto error = [](const Shape& shape, const Shape& parts) {
    const Status status = PartitionBoxes(shape, parts).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(error({10, 3}, {2}),
            "partition \"[10, 3]\" into [2] parts: wrong number of axes (need "
            "2, found 1)");
  EXPECT_THAT(error({10, 3}, {0, 1}), HasSubstr("need 1 to 10 parts, found 0"));
  EXPECT_THAT(error({10, 3}, {1, 4}), HasSubstr("need 1 to 3 parts, found 4"));
  EXPECT_THAT(error({0, 3}, {2, 1}), HasSubstr("need 1 to 1 parts, found 2"));
  EXPECT_THAT(error({-1, 3}, {1, 1}), HasSubstr("negative"));
  const int64_t many = int64_t{1} << 31;
  for (const Shape& parts :
       {Shape{many, 1}, Shape{2, many}, Shape{2049, 2048}, Shape{many, many}}) {
    EXPECT_THAT(error({many, many}, parts),
                HasSubstr("too many boxes (need at most 4194304, found more)"));
  }
}

// Anyone may write a partitioner.
TEST(PartitionerTest, ALambdaIsAPartitioner) {
  const Partitioner halves = [](const Shape& shape, DType,
                                int axis) -> StatusOr<Shape> {
    Shape parts(shape.size(), 1);
    parts[axis] = 2;
    return parts;
  };
  EXPECT_THAT(Parts(halves, {4, 4}, DType::kF32, 1), ElementsAre(1, 2));
}

}  // namespace
}  // namespace belay::partitioner_test
