#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "core/strided_copy.h"

namespace belay::struct_copy_test {
namespace {

using Random = std::mt19937;

int64_t Pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Parts in any order of memory, with gaps on both sides.
StructLayout AnyLayout(Random& random) {
  StructLayout layout;
  std::vector<int64_t> lengths(static_cast<size_t>(Pick(random, 1, 6)));
  for (int64_t& length : lengths) length = Pick(random, 1, 30);
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  layout.parts.resize(lengths.size());
  for (const size_t i : order) {
    layout.bytes += Pick(random, 0, 3);
    layout.parts[i].memory = layout.bytes;
    layout.bytes += lengths[i];
  }
  layout.bytes += Pick(random, 0, 3);
  for (size_t i = 0; i < lengths.size(); ++i) {
    layout.stored_bytes += Pick(random, 0, 1);
    layout.parts[i].stored = layout.stored_bytes;
    layout.parts[i].bytes = lengths[i];
    layout.stored_bytes += lengths[i];
  }
  return layout;
}

Box AnyPart(Random& random, const Box& box) {
  Box part = box;
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t begin = Pick(random, 0, box.shape[axis]);
    const int64_t end = Pick(random, begin, box.shape[axis]);
    part.offset[axis] += begin;
    part.shape[axis] = end - begin;
  }
  return part;
}

// The place in memory of a byte that is stored, or -1.
int64_t InMemory(const StructLayout& layout, int64_t stored) {
  for (const StructLayout::Part& part : layout.parts) {
    if (stored >= part.stored && stored < part.stored + part.bytes) {
      return part.memory + stored - part.stored;
    }
  }
  return -1;
}

std::vector<char> AnyBytes(Random& random, int64_t size) {
  std::vector<char> bytes(static_cast<size_t>(size));
  for (char& byte : bytes) byte = static_cast<char>(Pick(random, 1, 120));
  return bytes;
}

TEST(StructCopyTest, AnyPartOfAnyStructs) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const StructLayout layout = AnyLayout(random);
    const Box all = {{Pick(random, 0, 5), 0},
                     {Pick(random, 1, 9), layout.stored_bytes}};
    const Box box = AnyPart(random, all);
    const auto memory = AnyBytes(random, all.shape[0] * layout.bytes);
    auto stored = AnyBytes(random, NumElements(box.shape));
    PackStructs(layout, box, memory.data(), all, stored.data(), box);
    auto back = AnyBytes(random, all.shape[0] * layout.bytes);
    std::vector<char> expected = back;
    UnpackStructs(layout, box, stored.data(), box, back.data(), all);
    for (int64_t row = 0; row < box.shape[0]; ++row) {
      const int64_t in_memory =
          (box.offset[0] + row - all.offset[0]) * layout.bytes;
      for (int64_t i = 0; i < box.shape[1]; ++i) {
        const int64_t place = InMemory(layout, box.offset[1] + i);
        const char found = stored[row * box.shape[1] + i];
        ASSERT_EQ(found, place < 0 ? 0 : memory[in_memory + place]);
        if (place >= 0) expected[in_memory + place] = found;
      }
    }
    EXPECT_EQ(back, expected);
  }
}

TEST(StructCopyTest, DenseIsWhatNeedsNoCopy) {
  EXPECT_TRUE(IsDense({.bytes = 8, .stored_bytes = 8, .parts = {{0, 0, 8}}}));
  EXPECT_FALSE(IsDense({.bytes = 8, .stored_bytes = 4, .parts = {{0, 0, 4}}}));
  EXPECT_FALSE(IsDense(
      {.bytes = 8, .stored_bytes = 8, .parts = {{0, 4, 4}, {4, 0, 4}}}));
  EXPECT_FALSE(IsDense({.bytes = 8, .stored_bytes = 8, .parts = {{0, 0, 4}}}));
}

}  // namespace
}  // namespace belay::struct_copy_test
