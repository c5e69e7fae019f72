// The choosers against slow ones: all shapes that divide, and Orbax's rule word
// for word.
#include <gtest/gtest.h>

#include <algorithm>

#include "box_oracle.h"
#include "plan/chunks.h"

namespace belay::chunk_shape_property_test {
namespace {

std::string Text(const ChunkRequest& request) {
  return ShapeText(request.shard_shape) + " of " +
         ShapeText(request.global_shape) + ", " +
         std::to_string(request.chunk_byte_size) + " bytes, " +
         std::to_string(request.shard_axes.size()) + " shard axes";
}

// Some axes are cut in up to 4, others not at all. Any may be empty.
ChunkRequest DrawRequest(Rng& rng, int64_t max_length, int64_t max_elements) {
  ChunkRequest request = {.key = "w",
                          .shard_shape = DrawShape(rng, 4, max_length),
                          .element_size = Draw(rng, 1, 16)};
  const auto ndim = static_cast<int>(request.shard_shape.size());
  for (const int64_t length : request.shard_shape) {
    request.global_shape.push_back(length *
                                   std::max<int64_t>(1, Draw(rng, -3, 4)));
  }
  request.chunk_byte_size = request.element_size * Draw(rng, 1, max_elements) +
                            Draw(rng, 0, request.element_size - 1);
  for (int axis = 0; axis < ndim; ++axis) {
    if (Draw(rng, 1, 6) == 1) request.shard_axes.push_back(axis);
  }
  return request;
}

int64_t Limit(const ChunkRequest& request) {
  return request.chunk_byte_size / request.element_size;
}

// The lengths to choose from, by trial of every number.
std::vector<std::vector<int64_t>> Choices(const ChunkRequest& request) {
  std::vector<std::vector<int64_t>> choices;
  for (const int64_t length : request.shard_shape) {
    choices.emplace_back();
    for (int64_t i = 1; i <= std::max<int64_t>(length, 1); ++i) {
      if (length % i == 0) choices.back().push_back(i);
    }
  }
  for (const int axis : request.shard_axes) choices[axis] = {1};
  return choices;
}

// The number of elements, then the lengths from the last axis on.
std::vector<int64_t> Rank(const Shape& chunk) {
  std::vector<int64_t> rank(chunk.rbegin(), chunk.rend());
  int64_t count = 1;
  for (const int64_t length : chunk) count *= length;
  rank.insert(rank.begin(), count);
  return rank;
}

// The best of all combinations.
Shape BestDividing(const ChunkRequest& request) {
  std::vector<Shape> all = {Shape{}};
  for (const std::vector<int64_t>& choices : Choices(request)) {
    std::vector<Shape> longer;
    for (const Shape& shape : all) {
      for (const int64_t length : choices) {
        longer.push_back(shape);
        longer.back().push_back(length);
      }
    }
    all = std::move(longer);
  }
  std::erase_if(
      all, [&](const Shape& chunk) { return Rank(chunk)[0] > Limit(request); });
  return *std::max_element(
      all.begin(), all.end(),
      [](const Shape& a, const Shape& b) { return Rank(a) < Rank(b); });
}

// Lists of divisors, from whose ends the longest is taken.
Shape OrbaxChunk(const ChunkRequest& request) {
  std::vector<std::vector<int64_t>> factors = Choices(request);
  std::vector<bool> sharded;
  for (size_t i = 0; i < factors.size(); ++i) {
    sharded.push_back(request.global_shape[i] != request.shard_shape[i]);
  }
  const auto total = [&factors] {
    int64_t product = 1;
    for (const auto& factor : factors) product *= factor.back();
    return product;
  };
  while (total() > Limit(request)) {
    int reduced = -1;
    int64_t size = 1;
    for (size_t i = 0; i < factors.size(); ++i) {
      if (sharded[i] && factors[i].back() > size) {
        size = factors[i].back();
        reduced = static_cast<int>(i);
      }
    }
    if (size > 1) {
      factors[reduced].pop_back();
    } else {
      sharded.assign(factors.size(), true);
    }
  }
  Shape chunk;
  for (const auto& factor : factors) chunk.push_back(factor.back());
  return chunk;
}

// Returns whether the chunk is that of a request without a limit.
bool IsWhole(const ChunkRequest& request, const Shape& chunk) {
  Shape whole;
  for (const auto& choices : Choices(request)) whole.push_back(choices.back());
  return chunk == whole;
}

TEST(ChunkShapePropertyTest, ExactIsTheBestOfAllThatDivide) {
  Rng rng(1);
  int num_dividing = 0, num_ragged = 0;
  for (int i = 0; i < 20000; ++i) {
    const ChunkRequest request = DrawRequest(rng, 24, i % 2 ? 30 : 3000);
    const Shape best = BestDividing(request);
    const Shape chunk = ExactChunkShape(request).value();
    if (IsWhole(request, best) || 2 * Rank(best)[0] >= Limit(request)) {
      ++num_dividing;
      ASSERT_EQ(chunk, best) << Text(request);
    } else {
      ++num_ragged;
      ASSERT_GT(Rank(chunk)[0], Rank(best)[0]) << Text(request);
    }
  }
  EXPECT_GT(num_dividing, 1000);
  EXPECT_GT(num_ragged, 500);
}

TEST(ChunkShapePropertyTest, ExactHasHalfOfTheLimitOrAll) {
  Rng rng(2);
  for (int i = 0; i < 50000; ++i) {
    const int64_t max_length = i % 3 ? 40 : 5000;
    const ChunkRequest request = DrawRequest(rng, max_length, 50000);
    const Shape chunk = ExactChunkShape(request).value();
    ASSERT_EQ(chunk.size(), request.shard_shape.size());
    ASSERT_LE(Rank(chunk)[0], Limit(request)) << Text(request);
    ASSERT_TRUE(IsWhole(request, chunk) || 2 * Rank(chunk)[0] >= Limit(request))
        << Text(request) << " in chunks of " << ShapeText(chunk);
    for (size_t axis = 0; axis < chunk.size(); ++axis) {
      ASSERT_GE(chunk[axis], 1);
      ASSERT_LE(chunk[axis], std::max<int64_t>(request.shard_shape[axis], 1));
    }
    for (const int axis : request.shard_axes) ASSERT_EQ(chunk[axis], 1);
  }
}

TEST(ChunkShapePropertyTest, GreedyIsOrbaxs) {
  Rng rng(3);
  for (int i = 0; i < 20000; ++i) {
    const ChunkRequest request =
        DrawRequest(rng, i % 2 ? 24 : 200, i % 3 ? 30 : 30000);
    const Shape chunk = GreedyChunkShape(request).value();
    ASSERT_EQ(chunk, OrbaxChunk(request)) << Text(request);
    ASSERT_LE(Rank(chunk)[0], Rank(ExactChunkShape(request).value())[0])
        << Text(request);
  }
}

// Where the cut axis is whole in the chunk, the other one gives the freedom.
TEST(ChunkShapePropertyTest, OneWriterForEachChunk) {
  Rng rng(4);
  int num_ragged = 0;
  for (int i = 0; i < 20000; ++i) {
    const Shape shard = {Draw(rng, 1, 60), Draw(rng, 60, 5000)};
    const ChunkRequest request = {.key = "w",
                                  .global_shape = {3 * shard[0], shard[1]},
                                  .shard_shape = shard,
                                  .element_size = 1,
                                  .chunk_byte_size = Draw(rng, 60, shard[1])};
    const Shape chunk = ExactChunkShape(request).value();
    ASSERT_EQ(shard[0] % chunk[0], 0)
        << Text(request) << " in chunks of " << ShapeText(chunk);
    num_ragged += shard[1] % chunk[1] != 0;
  }
  EXPECT_GT(num_ragged, 500);
}

}  // namespace
}  // namespace belay::chunk_shape_property_test
