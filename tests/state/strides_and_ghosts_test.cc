#include "state/strides_and_ghosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "belay/state.h"

namespace belay::strides_and_ghosts_test {
namespace {

using ::testing::HasSubstr;

Shard ShardOf(const Shape& shape, const Box& box) {
  return {.key = "u", .dtype = DType::kF64, .global_shape = shape, .box = box};
}

// Where the first element lies, from the memory's first one.
int64_t FirstOf(const Shard& shard, const std::vector<double>& memory) {
  return static_cast<const double*>(shard.data) - memory.data();
}

TEST(MemoryLayoutTest, GhostCellsLieAround) {
  std::vector<double> memory(5 * 7);
  Shard shard = ShardOf({9, 9}, {{2, 3}, {2, 4}});
  ASSERT_EQ(SetMemory({memory, {.before = {1, 2}, .after = {2, 1}}}, shard),
            absl::OkStatus());
  EXPECT_EQ(FirstOf(shard, memory), 1 * 7 + 2);
  EXPECT_EQ(shard.strides, (Shape{7, 1}));
  EXPECT_EQ(shard.ghosts, nullptr);  // a save and a restore leave them alone
  Shard as_before = ShardOf({9, 9}, {{2, 3}, {3, 3}});
  ASSERT_EQ(SetMemory({memory, {.before = {1, 2}}}, as_before),
            absl::OkStatus());
  EXPECT_EQ(FirstOf(as_before, memory), 1 * 7 + 2);
}

TEST(MemoryLayoutTest, OtherOrdersAndStrides) {
  std::vector<double> memory(100);
  Shard fortran = ShardOf({3, 4}, {{0, 0}, {3, 4}});
  memory.resize(12);
  ASSERT_EQ(SetMemory({memory, {.order = AxisOrder::kColumnMajor}}, fortran),
            absl::OkStatus());
  EXPECT_EQ(fortran.strides, (Shape{1, 3}));
  memory.resize(100);
  Shard apart = ShardOf({3, 4}, {{0, 0}, {3, 4}});
  ASSERT_EQ(SetMemory({memory, {.before = {1, 0}, .strides = {16, 2}}}, apart),
            absl::OkStatus());
  EXPECT_EQ(FirstOf(apart, memory), 16);
  EXPECT_EQ(apart.strides, (Shape{16, 2}));
}

// Rows with ghost rows around them are dense.
TEST(MemoryLayoutTest, WhatIsDenseHasNoStrides) {
  std::vector<double> memory(4 * 5);
  Shard rows = ShardOf({9, 5}, {{2, 0}, {2, 5}});
  ASSERT_EQ(SetMemory({memory, {.before = {1, 0}}}, rows), absl::OkStatus());
  EXPECT_EQ(FirstOf(rows, memory), 5);
  EXPECT_TRUE(rows.strides.empty());
}

TEST(MemoryLayoutTest, Mistakes) {
  std::vector<double> memory(12);
  const auto error = [&](const MemoryLayout& layout) {
    Shard shard = ShardOf({9, 9}, {{0, 0}, {3, 4}});
    return std::string(SetMemory({memory, layout}, shard).message());
  };
  EXPECT_EQ(
      error({.before = {1, 1}}),
      "the size of the memory does not match its box with the ghost cells "
      "(need 30 elements, found 12)");
  EXPECT_EQ(error({.before = {1}}),
            "MemoryLayout::before: wrong number of axes (need 2, found 1)");
  EXPECT_EQ(error({.periodic = {true, true, true}}),
            "MemoryLayout::periodic: wrong number of axes (need 2, found 3)");
  EXPECT_EQ(error({.before = {0, -1}}),
            "MemoryLayout: the number of ghost cells is negative (need at "
            "least 0, found "
            "-1)");
  EXPECT_EQ(
      error({.strides = {3, 1}}),
      "MemoryLayout::strides: elements overlap (need a stride of at least 4 "
      "for axis 0, found 3)");
  EXPECT_EQ(
      error({.strides = {4, 0}}),
      "MemoryLayout::strides: elements overlap (need a stride of at least 1 "
      "for axis 1, found 0)");
  EXPECT_EQ(
      error({.strides = {5, 1}}),
      "the size of the memory does not match its box (need 14 elements, found "
      "12)");
  EXPECT_THAT(error({.before = {INT64_MAX, 0}}), HasSubstr("too many ghost"));
  EXPECT_THAT(error({.before = {INT64_MAX / 4, 0}}), HasSubstr("check shape"));
  EXPECT_THAT(error({.strides = {INT64_MAX, 1}}), HasSubstr("too large"));
  State state;
  state.AddPiece("u", {9, 9}, {{0, 0}, {3, 4}}, {memory, {.before = {1, 1}}});
  EXPECT_THAT(std::string(state.status().message()),
              HasSubstr("add \"u\": the size of the memory does not match"));
  State flat;
  flat.AddFlatRange("", {{.key = "a", .global_shape = {12}}}, 0, 12,
                    {memory, {.before = {0}}});
  EXPECT_THAT(std::string(flat.status().message()),
              HasSubstr("a flat buffer is dense"));
}

TEST(MemoryLayoutTest, GhostCellsInsideTheArrayAreFilled) {
  std::vector<double> memory(4 * 6);
  Shard shard = ShardOf({9, 9}, {{0, 5}, {2, 4}});
  ASSERT_EQ(SetMemory({memory, {.before = {1, 1}, .fill_ghosts = true}}, shard),
            absl::OkStatus());
  const std::vector<Shard> parts = WithGhostCells(shard).value();
  ASSERT_EQ(parts.size(), 1);
  EXPECT_EQ(parts[0].box, (Box{{0, 4}, {3, 5}}));
  EXPECT_EQ(FirstOf(parts[0], memory), 6);
}

TEST(MemoryLayoutTest, PeriodicAxesGoOnAtTheirOtherEnd) {
  std::vector<double> memory(12);
  Shard shard = ShardOf({9}, {{7}, {2}});
  ASSERT_EQ(SetMemory({memory,
                       {.before = {4},
                        .after = {6},
                        .fill_ghosts = true,
                        .periodic = {true}}},
                      shard),
            absl::OkStatus());
  const std::vector<Shard> parts = WithGhostCells(shard).value();
  ASSERT_EQ(parts.size(), 2);
  EXPECT_EQ(parts[0].box, (Box{{3}, {6}}));
  EXPECT_EQ(FirstOf(parts[0], memory), 0);
  EXPECT_EQ(parts[1].box, (Box{{0}, {6}}));
  EXPECT_EQ(FirstOf(parts[1], memory), 6);
  // A halo that goes round a single element for ever is a mistake.
  std::vector<double> many(20001);
  Shard one = ShardOf({1}, {{0}, {1}});
  ASSERT_EQ(
      SetMemory(
          {many, {.before = {10000}, .fill_ghosts = true, .periodic = {true}}},
          one),
      absl::OkStatus());
  EXPECT_EQ(
      WithGhostCells(one).status(),
      absl::InvalidArgumentError("list \"u\": the ghost cells of axis 0 "
                                 "wrap around its 1 elements too many times"));
}

}  // namespace
}  // namespace belay::strides_and_ghosts_test
