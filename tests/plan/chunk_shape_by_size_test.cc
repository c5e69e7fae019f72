// The choosers by table: rows of a global shape and the shape of its shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/chunks.h"

namespace belay::chunk_shape_by_size_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

ChunkRequest Request(const Shape& global_shape, const Shape& shard_shape,
                     int64_t element_size, int64_t chunk_byte_size,
                     const std::vector<int>& shard_axes = {}) {
  return {.key = "w",
          .global_shape = global_shape,
          .shard_shape = shard_shape,
          .element_size = element_size,
          .chunk_byte_size = chunk_byte_size,
          .shard_axes = shard_axes};
}

// With chunk_byte_size in elements of 4 bytes; 0 for none.
Shape Greedy(const Shape& global_shape, const Shape& shard_shape,
             const std::vector<int>& shard_axes, int64_t elements = 0) {
  return GreedyChunkShape(
             Request(global_shape, shard_shape, 4, 4 * elements, shard_axes))
      .value();
}

Shape Exact(const Shape& global_shape, const Shape& shard_shape,
            int64_t elements) {
  return ExactChunkShape(Request(global_shape, shard_shape, 4, 4 * elements))
      .value();
}

struct Row {
  int number;
  Shape global_shape;
  Shape shard_shape;
  int64_t element_size;
  int64_t chunk_byte_size;
  Shape greedy;
  Shape exact;
};

const std::vector<Row>& Table() {
  static const auto* const rows = new std::vector<Row>{
      {1, {10, 100, 200}, {10, 100, 200}, 4, 4, {1, 1, 1}, {1, 1, 1}},
      {2, {10, 100, 200}, {10, 100, 200}, 4, 500, {5, 5, 5}, {1, 5, 25}},
      {3, {10, 100, 200}, {10, 100, 200}, 4, 2500, {5, 10, 10}, {1, 25, 25}},
      {4, {10, 500, 200}, {10, 100, 200}, 4, 40000, {10, 5, 200}, {1, 50, 200}},
      {5,
       {10, 100, 200},
       {10, 100, 100},
       4,
       100000,
       {10, 100, 25},
       {5, 50, 100}},
      {6, {10, 500, 200}, {10, 100, 200}, 4, 4000, {10, 1, 100}, {1, 5, 200}},
      {7, {8192, 8192}, {1024, 8192}, 4, kMiB, {32, 8192}, {32, 8192}},
      {8, {8192, 8192}, {1024, 8192}, 4, 10 * kMiB, {256, 8192}, {256, 8192}},
      {9, {50257, 768}, {50257, 768}, 4, 4 * kMiB, {29, 768}, {50257, 16}},
      {10, {50257, 768}, {50257, 384}, 4, 4 * kMiB, {50257, 16}, {50257, 16}},
      {11,
       {32000, 4096},
       {4000, 4096},
       2,
       10 * kMiB,
       {1000, 4096},
       {1000, 4096}},
      {12, {1009, 1009}, {1009, 1009}, 4, kMiB, {1, 1009}, {253, 1009}},
      {13, {1009}, {1009}, 4, 4032, {1}, {505}},
      {14, {32, 32}, {4, 16}, 4, 16, {2, 2}, {1, 4}},
      {15, {128}, {8}, 4, 16, {4}, {4}},
      {16, {}, {}, 4, 4, {}, {}},
      {17, {7}, {7}, 8, 24, {1}, {3}},
      {18, {4, 6}, {4, 6}, 4, 20, {2, 2}, {2, 2}},
      {19, {1, 1048576}, {1, 1048576}, 4, kMiB, {1, 262144}, {1, 262144}},
      {20,
       {151936, 5120},
       {18992, 5120},
       2,
       16 * kMiB,
       {1187, 5120},
       {1187, 5120}},
      {21, {0, 4}, {0, 4}, 4, 16, {1, 4}, {1, 4}},
  };
  return *rows;
}

TEST(GreedyChunkShapeTest, Table) {
  for (const Row& row : Table()) {
    EXPECT_EQ(GreedyChunkShape(Request(row.global_shape, row.shard_shape,
                                       row.element_size, row.chunk_byte_size))
                  .value(),
              row.greedy)
        << "row " << row.number;
  }
}

TEST(ExactChunkShapeTest, Table) {
  for (const Row& row : Table()) {
    EXPECT_EQ(ExactChunkShape(Request(row.global_shape, row.shard_shape,
                                      row.element_size, row.chunk_byte_size))
                  .value(),
              row.exact)
        << "row " << row.number;
  }
}

TEST(SubchunkingTest, WriteShapeEqualsGlobalShape) {
  EXPECT_EQ(Greedy({10, 100, 200}, {10, 100, 200}, {}, 1), (Shape{1, 1, 1}));
  EXPECT_EQ(Greedy({10, 100, 200}, {10, 100, 200}, {}, 125), (Shape{5, 5, 5}));
}

TEST(SubchunkingTest, TargetNotMultipleOfDtype) {
  for (const int64_t bytes : {2500, 2501, 2503}) {
    EXPECT_EQ(
        GreedyChunkShape(Request({10, 100, 200}, {10, 100, 200}, 4, bytes))
            .value(),
        (Shape{5, 10, 10}));
  }
}

TEST(SubchunkingTest, ShardedArray) {
  EXPECT_EQ(Greedy({10, 500, 200}, {10, 100, 200}, {}, 10000),
            (Shape{10, 5, 200}));
  EXPECT_EQ(Greedy({10, 100, 200}, {10, 100, 100}, {}, 25000),
            (Shape{10, 100, 25}));
  EXPECT_EQ(Greedy({10, 500, 200}, {10, 100, 200}, {}, 1000),
            (Shape{10, 1, 100}));
}

TEST(SubchunkingTest, TargetNone) {
  const ChunkRequest request = Request({10, 500, 200}, {10, 100, 200}, 4, 0);
  EXPECT_EQ(GreedyChunkShape(request).value(), request.shard_shape);
  EXPECT_EQ(ExactChunkShape(request).value(), request.shard_shape);
}

TEST(SubchunkingTest, HandlesZerosInShape) {
  EXPECT_EQ(Greedy({0, 4}, {0, 4}, {}, 4), (Shape{1, 4}));
  EXPECT_EQ(Exact({0, 4}, {0, 4}, 4), (Shape{1, 4}));
  EXPECT_EQ(Exact({0, 4}, {0, 4}, 2), (Shape{1, 2}));
  EXPECT_EQ(Exact({4, 0, 4}, {0, 0, 0}, 1), (Shape{1, 1, 1}));
  const int64_t large = int64_t{1}
                        << 62;  // the others overflow, were they used
  EXPECT_EQ(Exact({0, large, large}, {0, large, large}, 64), (Shape{1, 1, 64}));
  EXPECT_EQ(Greedy({0, large, large}, {0, large, large}, {}, 64),
            (Shape{1, 8, 8}));
}

TEST(SubchunkingTest, RaisesIfTargetTooSmall) {
  const ChunkRequest request = Request({4, 4}, {4, 4}, 8, 4);  // row 22
  for (const Status& status : {GreedyChunkShape(request).status(),
                               ExactChunkShape(request).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("choose chunks \"w\": chunk_byte_size is below one "
                          "element (need 0 or at least 8 bytes, found 4)"));
  }
}

TEST(SubchunkingTest, RaisesIfShardAxesInvalid) {
  for (const int axis : {-1, 2}) {
    const ChunkRequest request = Request({4, 4}, {4, 4}, 8, 64, {0, axis});
    for (const Status& status : {GreedyChunkShape(request).status(),
                                 ExactChunkShape(request).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("shard_axes names no axis of [4, 4]"));
    }
  }
}

TEST(SubchunkingTest, ShardAxesDeterministic) {
  const Shape need = {1, 45, 1, 64};
  for (const std::vector<int>& axes :
       std::vector<std::vector<int>>{{0, 2}, {2, 0}, {2, 0, 2}}) {
    EXPECT_EQ(Greedy({4, 90, 6, 128}, {4, 90, 6, 128}, axes, 90 * 32), need);
  }
}

TEST(SubchunkingTest, ShardAxesWhenWriteEqualsGlobal) {
  EXPECT_EQ(Greedy({4, 90, 6}, {4, 90, 6}, {0}), (Shape{1, 90, 6}));
  EXPECT_EQ(Greedy({4, 90, 6}, {4, 90, 6}, {0, 2}), (Shape{1, 90, 1}));
  EXPECT_EQ(Greedy({4, 90, 6, 128}, {4, 90, 6, 128}, {0, 2}, 90 * 64),
            (Shape{1, 90, 1, 64}));
}

TEST(SubchunkingTest, ShardAxesAlreadySharded) {
  EXPECT_EQ(Greedy({4, 80, 12}, {4, 40, 6}, {0, 2}), (Shape{1, 40, 1}));
  EXPECT_EQ(Greedy({16, 80, 12}, {4, 80, 12}, {0}, 120), (Shape{1, 10, 12}));
  EXPECT_EQ(Greedy({4, 80, 12, 12}, {4, 80, 6, 6}, {0}, 720),
            (Shape{1, 80, 3, 3}));
  EXPECT_EQ(Greedy({24, 512, 5120, 5120}, {3, 32, 1280, 160}, {0}),
            (Shape{1, 32, 1280, 160}));
}

TEST(SubchunkingTest, ShardAxesTargetNotMultipleOfItemsize) {
  EXPECT_EQ(GreedyChunkShape(Request({4, 90, 6, 128}, {4, 90, 6, 128}, 4,
                                     90 * 64 * 4 + 3, {0, 2}))
                .value(),
            (Shape{1, 90, 1, 64}));
}

TEST(SubchunkingTest, ShardAxesTargetNotADivisorOfTotal) {
  EXPECT_EQ(Greedy({4, 90, 6, 128}, {4, 90, 6, 128}, {0, 2}, 90 * 64 + 7),
            (Shape{1, 90, 1, 64}));
}

TEST(TensorstoreUtilsTest, ChunkByteSize) {
  const ChunkRequest request = Request({1024, 512}, {256, 512}, 4, 65536);
  EXPECT_EQ(GreedyChunkShape(request).value(), (Shape{32, 512}));
  EXPECT_EQ(ExactChunkShape(request).value(), (Shape{32, 512}));
}

TEST(TensorstoreUtilsTest, ChunkByteSizeAccountsForTargetDtype) {
  const ChunkRequest request = Request({1024, 512}, {256, 512}, 2, 65536);
  EXPECT_EQ(GreedyChunkShape(request).value(), (Shape{64, 512}));
  EXPECT_EQ(ExactChunkShape(request).value(), (Shape{64, 512}));
}

TEST(TensorstoreUtilsTest, ChunkByteSizeWithShardAxes) {
  const ChunkRequest request = Request({1024, 512}, {256, 512}, 4, 512, {1});
  EXPECT_EQ(GreedyChunkShape(request).value(), (Shape{128, 1}));
  EXPECT_EQ(ExactChunkShape(request).value(), (Shape{128, 1}));
}

// Its counterpart here is the limit of HDF5, with and without a size.
TEST(TensorstoreUtilsTest, ChunkByteSizeAdjustedForTargetDataFileSize) {
  const Shape shape = {int64_t{1} << 22, 1024};  // 16 GiB
  for (const int64_t bytes : {int64_t{0}, int64_t{8} << 30}) {
    const ChunkRequest request = Request(shape, shape, 4, bytes);
    EXPECT_EQ(GreedyChunkShape(request).value(), (Shape{1 << 19, 1024}));
    EXPECT_EQ(ExactChunkShape(request).value(), (Shape{1 << 19, 1024}));
  }
}

TEST(ExactChunkShapeTest, ShardAxesHaveLengthOne) {
  EXPECT_EQ(ExactChunkShape(Request({32, 32}, {4, 16}, 4, 16, {1})).value(),
            (Shape{4, 1}));
  EXPECT_EQ(ExactChunkShape(Request({4, 90, 6, 128}, {4, 90, 6, 128}, 4,
                                    90 * 64 * 4, {2, 0}))
                .value(),
            (Shape{1, 45, 1, 128}));
}

// Half of what is allowed is enough to prefer dividing.
TEST(ExactChunkShapeTest, DividesDownToHalfOfTheLimit) {
  EXPECT_EQ(Exact({22}, {22}, 21), (Shape{11}));  // 2 * 11 >= 21
  EXPECT_EQ(Exact({33}, {33}, 22), (Shape{11}));
  EXPECT_EQ(Exact({33}, {33}, 23), (Shape{17}));  // 2 * 11 < 23
}

TEST(ExactChunkShapeTest, RaggedChunksHaveOneWriterIfPossible) {
  // Rows are cut, and a prime number on each shard: columns are divided.
  EXPECT_EQ(Exact({8 * 1009, 1009}, {1009, 1009}, 262144), (Shape{1009, 253}));
  // The same with columns cut.
  EXPECT_EQ(Exact({1009, 8 * 1009}, {1009, 1009}, 262144), (Shape{253, 1009}));
  // The cut axis takes a divisor, the last one what is left.
  EXPECT_EQ(Exact({4 * 22, 1009}, {22, 1009}, 11), (Shape{11, 1}));
  EXPECT_EQ(Exact({4 * 22, 1009}, {22, 1009}, 19), (Shape{11, 1}));
  EXPECT_EQ(Exact({4 * 10, 1009}, {10, 1009}, 7), (Shape{5, 1}));
  EXPECT_EQ(Exact({4 * 14, 1009}, {14, 1009}, 5 * 14 + 13), (Shape{14, 5}));
}

TEST(ExactChunkShapeTest, RaggedChunksWithTwoWritersRatherThanTinyOnes) {
  EXPECT_EQ(Exact({2 * 1009}, {1009}, 500), (Shape{337}));
  EXPECT_EQ(Exact({2 * 1009, 2 * 1013}, {1009, 1013}, 500), (Shape{1, 338}));
  EXPECT_EQ(Exact({3 * 1234577}, {1234577}, 262144), (Shape{246916}));
}

TEST(ExactChunkShapeTest, OneElement) {
  EXPECT_EQ(Exact({1009, 1013}, {1009, 1013}, 1), (Shape{1, 1}));
  EXPECT_EQ(Exact({1009, 1013}, {1009, 1013}, 2), (Shape{1, 1}));  // half
  EXPECT_EQ(Exact({1009, 1013}, {1009, 1013}, 3), (Shape{1, 3}));
}

TEST(ExactChunkShapeTest, TheLongestAxes) {
  const int64_t prime = (int64_t{1} << 61) - 1;
  const Shape chunk =
      ExactChunkShape(Request({prime}, {prime}, 1, kMiB)).value();
  EXPECT_LE(chunk[0], kMiB);
  EXPECT_GE(chunk[0], kMiB - 1);
  // Both factors are above those that are searched for.
  const int64_t product = int64_t{1073741827} * 1073741831;
  const Shape pair =
      ExactChunkShape(Request({product}, {product}, 1, int64_t{2} << 30))
          .value();
  EXPECT_LE(pair[0], int64_t{2} << 30);
  EXPECT_GE(pair[0], int64_t{1} << 30);
}

}  // namespace
}  // namespace belay::chunk_shape_by_size_test
