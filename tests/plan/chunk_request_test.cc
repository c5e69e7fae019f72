#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "plan/chunks.h"

namespace belay::chunk_request_test {
namespace {

using ::testing::HasSubstr;

// An array "w" of f32 that is cut along its rows.
ChunkRequest Rows() {
  return {.key = "w",
          .global_shape = {400, 60},
          .shard_shape = {100, 60},
          .element_size = 4};
}

void ExpectError(const StatusOr<int64_t>& found, const std::string& cause) {
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr(cause));
}

void ExpectError(const StatusOr<ChunkShapes>& found, const std::string& cause) {
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr(cause));
}

bool Divides(const Shape& chunk, const Shape& shard) {
  const ChunkRequest request{.key = "w",
                             .global_shape = shard,
                             .shard_shape = shard,
                             .element_size = 1};
  return GivenChunkShapes(request, chunk, std::nullopt).ok();
}

TEST(GivenChunkShapesTest, LengthsDivideThoseOfTheShard) {
  EXPECT_TRUE(Divides({}, {}));
  EXPECT_TRUE(Divides({5, 10}, {10, 10}));
  EXPECT_TRUE(Divides({1, 3}, {0, 9}));
  EXPECT_FALSE(Divides({3, 10}, {10, 10}));
  EXPECT_FALSE(Divides({20, 10}, {10, 10}));
  EXPECT_FALSE(Divides({5}, {10, 10}));
  EXPECT_FALSE(Divides({5, 5, 1}, {10, 10}));
  EXPECT_FALSE(Divides({0, 10}, {10, 10}));
  EXPECT_FALSE(Divides({0}, {0}));
  EXPECT_FALSE(Divides({-5, 10}, {10, 10}));
}

TEST(GivenChunkShapesTest, BothGiven) {
  const ChunkShapes shapes =
      GivenChunkShapes(Rows(), Shape{50, 60}, Shape{10, 20}).value();
  EXPECT_EQ(shapes.write, (Shape{50, 60}));
  EXPECT_EQ(shapes.read, (Shape{10, 20}));
}

TEST(GivenChunkShapesTest, TheWriteChunkIsTheShardIfNotGiven) {
  const ChunkShapes shapes =
      GivenChunkShapes(Rows(), std::nullopt, Shape{10, 20}).value();
  EXPECT_EQ(shapes.write, (Shape{100, 60}));
  EXPECT_EQ(shapes.read, (Shape{10, 20}));
}

TEST(GivenChunkShapesTest, Defect1TheReadChunkIsTheWriteChunkIfNotGiven) {
  const ChunkShapes shapes =
      GivenChunkShapes(Rows(), Shape{50, 60}, std::nullopt).value();
  EXPECT_EQ(shapes.write, (Shape{50, 60}));
  EXPECT_EQ(shapes.read, (Shape{50, 60}));
}

TEST(GivenChunkShapesTest, NothingGiven) {
  const ChunkShapes shapes =
      GivenChunkShapes(Rows(), std::nullopt, std::nullopt).value();
  EXPECT_EQ(shapes.write, (Shape{100, 60}));
  EXPECT_EQ(shapes.read, (Shape{100, 60}));
}

TEST(GivenChunkShapesTest, ScalarsAndArraysWithoutElements) {
  const std::optional<Shape> none(std::in_place);
  const ChunkRequest scalar = {.key = "s", .element_size = 4};
  EXPECT_EQ(GivenChunkShapes(scalar, none, none)->read, Shape{});
  const ChunkRequest empty = {.key = "e",
                              .global_shape = {0, 4},
                              .shard_shape = {0, 4},
                              .element_size = 4};
  EXPECT_EQ(GivenChunkShapes(empty, std::nullopt, std::nullopt)->write,
            (Shape{1, 4}));
  EXPECT_EQ(GivenChunkShapes(empty, std::nullopt, Shape{2, 2})->read,
            (Shape{2, 2}));
}

TEST(GivenChunkShapesTest, WriteChunksThatDoNotDivide) {
  ExpectError(GivenChunkShapes(Rows(), Shape{30, 60}, std::nullopt),
              "choose chunks \"w\": the write chunk [30, 60] does not divide "
              "the shard [100, 60] along axis 0 (need a divisor of 100, "
              "found 30)");
  // A divisor of the array, not of the shard.
  ExpectError(GivenChunkShapes(Rows(), Shape{200, 60}, std::nullopt),
              "along axis 0 (need a divisor of 100, found 200)");
  ExpectError(GivenChunkShapes(Rows(), Shape{100, 7}, std::nullopt),
              "along axis 1 (need a divisor of 60, found 7)");
  ExpectError(GivenChunkShapes(Rows(), Shape{100, 0}, std::nullopt),
              "along axis 1 (need a divisor of 60, found 0)");
  ExpectError(GivenChunkShapes(Rows(), Shape{-1, 60}, std::nullopt),
              "along axis 0 (need a divisor of 100, found -1)");
  ExpectError(GivenChunkShapes(Rows(), Shape{100}, std::nullopt),
              "the write chunk has the wrong number of axes (need 2, found 1)");
  ExpectError(GivenChunkShapes(Rows(), Shape{100, 60, 1}, std::nullopt),
              "the write chunk has the wrong number of axes (need 2, found 3)");
}

TEST(GivenChunkShapesTest, ReadChunksThatDoNotDivide) {
  // A divisor of the shard, not of the write chunk.
  ExpectError(GivenChunkShapes(Rows(), Shape{50, 60}, Shape{20, 60}),
              "choose chunks \"w\": the read chunk [20, 60] does not divide "
              "the write chunk [50, 60] along axis 0 (need a divisor of 50, "
              "found 20)");
  ExpectError(GivenChunkShapes(Rows(), std::nullopt, Shape{100, 0}),
              "along axis 1 (need a divisor of 60, found 0)");
  ExpectError(GivenChunkShapes(Rows(), std::nullopt, Shape{}),
              "the read chunk has the wrong number of axes (need 2, found 0)");
}

TEST(GivenChunkShapesTest, EitherShapesOrASize) {
  ChunkRequest request = Rows();
  request.chunk_byte_size = 400;
  ExpectError(GivenChunkShapes(request, Shape{50, 60}, std::nullopt),
              "use either");
  request = Rows();
  request.shard_axes = {0};
  ExpectError(GivenChunkShapes(request, std::nullopt, Shape{50, 60}),
              "use either");
}

TEST(GivenChunkShapesTest, ReadChunksStayBelowFourGiB) {
  ChunkRequest request = {.key = "w",
                          .global_shape = {8, int64_t{1} << 30},
                          .shard_shape = {8, int64_t{1} << 30},
                          .element_size = 4};
  ExpectError(
      GivenChunkShapes(request, Shape{1, int64_t{1} << 30}, std::nullopt),
      "the read chunk [1, 1073741824] is too large (need at most "
      "1073741823 elements of 4 bytes)");
  EXPECT_EQ(GivenChunkShapes(request, std::nullopt, Shape{1, 1 << 29})->write,
            request.shard_shape);
}

TEST(MaxChunkElementsTest, RoundsDownAndStaysBelowFourGiB) {
  ChunkRequest request = Rows();
  EXPECT_EQ(MaxChunkElements(request).value(), kMaxChunkBytes / 4);
  request.chunk_byte_size = 4;
  EXPECT_EQ(MaxChunkElements(request).value(), 1);
  request.chunk_byte_size = 4003;
  EXPECT_EQ(MaxChunkElements(request).value(), 1000);
  request.chunk_byte_size = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(MaxChunkElements(request).value(), kMaxChunkBytes / 4);
}

TEST(MaxChunkElementsTest, BadSizes) {
  ChunkRequest request = Rows();
  request.chunk_byte_size = 3;
  ExpectError(MaxChunkElements(request),
              "choose chunks \"w\": chunk_byte_size is below one element (need "
              "0 or at least 4 bytes, found 3)");
  request.chunk_byte_size = -1;
  ExpectError(MaxChunkElements(request), "found -1)");
  request = Rows();
  request.element_size = 0;
  ExpectError(MaxChunkElements(request),
              "the element size is out of range (need 1 to 4294967295 bytes, "
              "found 0)");
  request.element_size = kMaxChunkBytes + 1;
  ExpectError(MaxChunkElements(request), "found 4294967296)");
}

TEST(MaxChunkElementsTest, BadAxes) {
  ChunkRequest request = Rows();
  request.shard_axes = {0, 2};
  ExpectError(MaxChunkElements(request),
              "shard_axes names no axis of [100, 60] (need below 2, found 2)");
  request.shard_axes = {-1};
  ExpectError(MaxChunkElements(request), "found -1)");
  ExpectError(
      MaxChunkElements({.key = "s", .element_size = 4, .shard_axes = {0}}),
      "shard_axes names no axis of [] (need below 0, found 0)");
}

TEST(MaxChunkElementsTest, BadShapes) {
  ChunkRequest request = Rows();
  request.shard_shape = {100};
  ExpectError(MaxChunkElements(request),
              "the shard shape has the wrong number of axes (need 2, found 1)");
  request.shard_shape = {100, 61};
  ExpectError(MaxChunkElements(request),
              "the shard does not fit axis 1 of [400, 60] (need 0 to 60, "
              "found 61)");
  request.shard_shape = {-100, 60};
  ExpectError(MaxChunkElements(request), "found -100)");
  request.global_shape = {-400, 60};
  ExpectError(MaxChunkElements(request), "length of axis 0 is negative");
}

TEST(MaxChunkElementsTest, SizesPastTheLargestNumber) {
  const int64_t large = int64_t{1} << 62;
  ChunkRequest request = {.key = "w",
                          .global_shape = {large, 2},
                          .shard_shape = {1, 1},
                          .element_size = 1};
  ExpectError(MaxChunkElements(request), "too many elements");
  request.global_shape = {large, 1};
  EXPECT_TRUE(MaxChunkElements(request).ok());
  request.element_size = 2;
  ExpectError(MaxChunkElements(request),
              "the array is too large (need at most 4611686018427387903 "
              "elements of 2 bytes, found 4611686018427387904)");
  request.global_shape = {large, 0, large};  // has no elements
  request.shard_shape = request.global_shape;
  EXPECT_TRUE(MaxChunkElements(request).ok());
}

TEST(HasAtMostTest, NeverOverflows) {
  const int64_t large = int64_t{1} << 62;
  EXPECT_TRUE(HasAtMost(1, {}));
  EXPECT_TRUE(HasAtMost(6, {2, 3}));
  EXPECT_FALSE(HasAtMost(5, {2, 3}));
  EXPECT_FALSE(HasAtMost(large, {large, large}));
}

}  // namespace
}  // namespace belay::chunk_request_test
