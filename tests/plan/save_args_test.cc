#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model_testing.h"
#include "plan/chunks.h"
#include "plan/save_planner.h"

namespace belay::save_args_test {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(const Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(SaveArgsTest, TheFirstEntryThatMatchesCounts) {
  const ArgsByKey args = CompileArgs({{"enc/w", {.dtype = DType::kF16}},
                                      {"enc/.*", {.dtype = DType::kBF16}},
                                      {".*/w", {.chunk_byte_size = 5}}})
                             .value();
  EXPECT_EQ(FindArgs(args, "enc/w").dtype, DType::kF16);
  EXPECT_EQ(FindArgs(args, "enc/b").dtype, DType::kBF16);
  EXPECT_EQ(FindArgs(args, "dec/w"), SaveArgs{.chunk_byte_size = 5});
  EXPECT_EQ(FindArgs(args, "my/enc/b"), SaveArgs{});
  EXPECT_EQ(FindArgs(ArgsByKey{}, "enc/w"), SaveArgs{});
}

TEST(SaveArgsTest, RefusesWhatIsNoExpressionAndNoNumber) {
  ExpectRefused(CompileArgs({{"a(", {}}}).status(), "keys \"a(\"");
  ExpectRefused(CompileArgs({{"w", {.dtype = DType{99}}}}).status(),
                "arguments for \"w\": unknown dtype (found number 99)");
  ExpectRefused(CompileArgs({{"w", {.chooser = ChunkChooser{7}}}}).status(),
                "the chooser is out of range (need 0 to 1, found 7)");
}

TEST(SaveArgsTest, StoresAsTheDTypeOfTheArguments) {
  const ArgsByKey args = CompileArgs({{"half", {.dtype = DType::kF16}},
                                      {"same", {.dtype = DType::kF32}}})
                             .value();
  const auto stored = [&](std::string_view key, DType f32, DType dtype) {
    return DTypeToStore(args, f32, key, dtype).value();
  };
  EXPECT_EQ(stored("half", DType::kF32, DType::kF32), DType::kF16);
  EXPECT_EQ(stored("half", DType::kBF16, DType::kF32), DType::kF16);
  EXPECT_EQ(stored("half", DType::kF32, DType::kI64), DType::kF16);
  EXPECT_EQ(stored("same", DType::kBF16, DType::kF32), DType::kF32);
  EXPECT_EQ(stored("other", DType::kBF16, DType::kF32), DType::kBF16);
  EXPECT_EQ(stored("other", DType::kBF16, DType::kF64), DType::kF64);
  ExpectRefused(
      DTypeToStore(args, DType::kF32, "half", DType::kString).status(),
      "store \"half\": string does not convert to the dtype that its arguments "
      "name (found f16)");
  ExpectRefused(DTypeToStore(args, DType::kF32, "half", DType::kC64).status(),
                "c64 does not convert");
}

// A pattern means the weights, not the counters beside them.
TEST(SaveArgsTest, APatternConvertsValuesOfItsKindOnly) {
  const auto stored = [](const std::string& keys, DType to, DType dtype) {
    const ArgsByKey args = CompileArgs({{keys, {.dtype = to}}}).value();
    return DTypeToStore(args, DType::kF32, "adam/m.0", dtype).value();
  };
  constexpr DType kFloats[] = {DType::kF16, DType::kBF16,   DType::kF32,
                               DType::kF64, DType::kF8E4M3, DType::kF8E5M2};
  constexpr DType kOthers[] = {DType::kI8,  DType::kI32,  DType::kI64,
                               DType::kU8,  DType::kU64,  DType::kBool,
                               DType::kC64, DType::kC128, DType::kString};
  for (const std::string keys : {".*", "adam/.*", "adam/m.(0|1)"}) {
    for (const DType dtype : kFloats) {
      EXPECT_EQ(stored(keys, DType::kBF16, dtype), DType::kBF16);
      EXPECT_EQ(stored(keys, DType::kI32, dtype), dtype);
    }
    for (const DType dtype : kOthers) {
      EXPECT_EQ(stored(keys, DType::kBF16, dtype), dtype);
    }
    EXPECT_EQ(stored(keys, DType::kI32, DType::kU64), DType::kI32);
    EXPECT_EQ(stored(keys, DType::kI32, DType::kBool), DType::kBool);
    EXPECT_EQ(stored(keys, DType::kC64, DType::kC128), DType::kC64);
    EXPECT_EQ(stored(keys, DType::kC64, DType::kF64), DType::kF64);
  }
  for (const std::string keys : {"adam/m.0", R"(adam\/m\.0)", R"(adam/m\.0)"}) {
    EXPECT_EQ(stored(keys, DType::kBF16, DType::kI64), DType::kBF16);
    EXPECT_EQ(stored(keys, DType::kI32, DType::kF64), DType::kI32);
    EXPECT_EQ(stored(keys, DType::kU8, DType::kBool), DType::kU8);
  }
}

TEST(SaveArgsTest, BytesDifferWhereArgumentsDo) {
  const std::vector<SaveArgs> all = {{},
                                     {.dtype = DType::kU8},
                                     {.write_chunk_shape = Shape{1}},
                                     {.read_chunk_shape = Shape{1, 1}},
                                     {.read_chunk_shape = Shape{1}},
                                     {.chunk_byte_size = 1},
                                     {.chooser = ChunkChooser::kGreedy},
                                     {.shard_axes = {0}},
                                     {.shard_axes = {1}}};
  for (const SaveArgs& a : all) {
    EXPECT_NE(EncodeArgs({{"a", a}}), EncodeArgs({{"b", a}}));
    for (const SaveArgs& b : all) {
      EXPECT_EQ(EncodeArgs({{"a", a}}) == EncodeArgs({{"a", b}}), a == b);
    }
  }
}

// "w" is f32 [24, 10], cut in three: by rows, by columns, or irregularly.
StoredArray Matrix() { return {"w", DType::kF32, {24, 10}, 0}; }

std::vector<RankShards> Cut(const std::vector<Box>& boxes,
                            const StoredArray& array = Matrix()) {
  std::vector<RankShards> ranks;
  for (const Box& box : boxes)
    ranks.push_back({.shards = {InfoOf(array, box)}});
  return ranks;
}
std::vector<RankShards> ByRows() {
  return Cut({{{0, 0}, {8, 10}}, {{8, 0}, {8, 10}}, {{16, 0}, {8, 10}}});
}
std::vector<RankShards> ByColumns() {
  return Cut({{{0, 0}, {24, 4}}, {{0, 4}, {24, 4}}, {{0, 8}, {24, 2}}});
}
std::vector<RankShards> Irregular() {
  return Cut({{{0, 0}, {5, 10}}, {{5, 0}, {18, 10}}, {{23, 0}, {1, 10}}});
}

StatusOr<SavePlan> PlanWith(const std::vector<RankShards>& ranks,
                            const SaveArgs& args,
                            FileLayout layout = FileLayout::kShared) {
  return PlanSave(ranks, {.file_layout = layout, .args = {{"w", args}}});
}

Shape ChunkOf(const std::vector<RankShards>& ranks, const SaveArgs& args) {
  const SavePlan plan = PlanWith(ranks, args).value();
  EXPECT_EQ(plan.datasets.size(), 1);
  return plan.datasets.at(0).chunk;
}

TEST(ChunkAsAskedTest, TheReadChunkIsStored) {
  const SaveArgs write = {.write_chunk_shape = Shape{4, 2}};
  EXPECT_EQ(ChunkOf(ByRows(), write), Shape({4, 2}));
  EXPECT_EQ(ChunkOf(ByColumns(), write), Shape({4, 2}));
  EXPECT_EQ(ChunkOf(Irregular(), {.write_chunk_shape = Shape{6, 5}}),
            Shape({6, 5}));
  const SaveArgs both = {.write_chunk_shape = Shape{4, 2},
                         .read_chunk_shape = Shape{2, 1}};
  EXPECT_EQ(ChunkOf(ByRows(), both), Shape({2, 1}));
  EXPECT_EQ(ChunkOf(ByColumns(), {.read_chunk_shape = Shape{24, 4}}),
            Shape({24, 4}));
}

TEST(ChunkAsAskedTest, ASizeIsThatOfWhatIsStored) {
  const SaveArgs args = {.chunk_byte_size = 80};
  EXPECT_EQ(ChunkOf(ByRows(), args), Shape({2, 10}));
  const SaveArgs axes = {.shard_axes = {0}};
  EXPECT_EQ(ChunkOf(ByRows(), axes), Shape({1, 10}));
  const SaveArgs greedy = {.chunk_byte_size = 40,
                           .chooser = ChunkChooser::kGreedy};
  // Reduces the longest axis of the shard, the cut one first.
  EXPECT_EQ(ChunkOf(ByRows(), greedy), Shape({1, 10}));
  EXPECT_EQ(ChunkOf(Irregular(), {.chunk_byte_size = 240}), Shape({6, 10}));
}

TEST(ChunkAsAskedTest, PiecesInFilesOfTheirOwnHaveSmallerChunks) {
  const SavePlan given =
      PlanWith(ByColumns(), {.write_chunk_shape = Shape{6, 4}},
               FileLayout::kPerTask)
          .value();
  ASSERT_EQ(given.datasets.size(), 3);
  EXPECT_EQ(given.datasets[1].chunk, Shape({6, 4}));
  EXPECT_EQ(given.datasets[2].chunk, Shape({6, 2}));
  const SavePlan chosen =
      PlanWith(ByColumns(), {.chunk_byte_size = 48}, FileLayout::kPerTask)
          .value();
  EXPECT_EQ(chosen.datasets[1].chunk, Shape({3, 4}));
  EXPECT_EQ(chosen.datasets[2].chunk, Shape({6, 2}));
}

TEST(ChunkAsAskedTest, WhatHasNoChunksIsStoredWithoutThem) {
  const StoredArray scalar{"w", DType::kF32, {}, 0};
  const StoredArray text{"w", DType::kString, {}, 7};
  const StoredArray empty{"w", DType::kF32, {0, 4}, 0};
  const SaveArgs args = {.chunk_byte_size = 64};
  EXPECT_EQ(ChunkOf(Cut({{}}, scalar), args), Shape{});
  EXPECT_EQ(ChunkOf(Cut({{}}, text), args), Shape{});
  EXPECT_TRUE(
      PlanWith(Cut({{{0, 0}, {0, 4}}}, empty), args).value().datasets.empty());
  // But the arguments have to fit.
  ExpectRefused(
      PlanWith(Cut({{{0, 0}, {0, 4}}}, empty), {.write_chunk_shape = Shape{1}})
          .status(),
      "wrong number of axes (need 2, found 1)");
}

TEST(ChunkAsAskedTest, RefusesWhatDoesNotFit) {
  const auto refused = [](const SaveArgs& args, const std::string& text) {
    ExpectRefused(PlanWith(ByRows(), args).status(), text);
  };
  refused({.write_chunk_shape = Shape{4}}, "(need 2, found 1)");
  refused({.write_chunk_shape = Shape{3, 2}},
          "\"w\": the write chunk [3, 2] does not divide the shard [8, 10] "
          "along axis 0 (need a divisor of 8, found 3)");
  refused({.write_chunk_shape = Shape{4, 2}, .read_chunk_shape = Shape{3, 2}},
          "the read chunk [3, 2] does not divide the write chunk [4, 2]");
  refused({.read_chunk_shape = Shape{0, 2}}, "found 0");
  refused({.chunk_byte_size = 3},
          "below one element (need 0 or at least 4 bytes, found 3)");
  refused({.chunk_byte_size = -1}, "found -1");
  refused({.chunk_byte_size = std::numeric_limits<int64_t>::min()}, "\"w\"");
  refused({.shard_axes = {2}}, "shard_axes names no axis");
  refused({.write_chunk_shape = Shape{4, 2}, .chunk_byte_size = 64},
          "use either");
  ExpectRefused(PlanSave(ByRows(), {.args = {{"w", {}}, {"wx", {}}}}).status(),
                "plan the save: SaveOptions.args \"wx\": matches no key (need "
                "one of 1); close to it: \"w\"");
  ExpectRefused(
      PlanSave(ByRows(), {.array_layout = ArrayLayout::kCanonical,
                          .args = {{"w", {.chunk_byte_size = 64}}}})
          .status(),
      "\"w\": array_layout = kCanonical stores every array contiguously");
}

// Random chunks of random cuts: every byte of the files is what it has to be,
// and each order stays inside a chunk.
TEST(ChunkAsAskedTest, EveryByteIsWrittenOnce) {
  int64_t chunked = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const std::vector<RankShards> ranks = RandomCut(
        RandomArrays(random), static_cast<int>(Uniform(1, 6, random)), random);
    SaveArgs args = {.chunk_byte_size = Uniform(16, 400, random)};
    if (Uniform(0, 1, random) == 1) args.chooser = ChunkChooser::kGreedy;
    const SavePlanOptions options = {
        .file_layout = static_cast<FileLayout>(Uniform(0, 2, random)),
        .sharding_policy = Uniform(0, 1, random) == 0
                               ? ShardByTask()
                               : MaxShardSize(Uniform(50, 2000, random)),
        .args = {{".*", args}}};
    const SavePlan plan = PlanSave(ranks, options).value();
    for (const StoredDataset& dataset : plan.datasets) {
      if (dataset.chunk.empty()) continue;
      ++chunked;
      EXPECT_LE(NumElements(dataset.chunk) *
                    IoElementSize(plan.arrays[dataset.array].dtype),
                args.chunk_byte_size);
    }
    for (const RankWrites& writes : plan.ranks) {
      for (const WriteOrder& order : writes.orders) {
        EXPECT_TRUE(Contains(order.extent.box, order.box));
      }
    }
    ExpectContent(plan, SimulateSave(plan, ranks));
  }
  EXPECT_GT(chunked, 500);
}

}  // namespace
}  // namespace belay::save_args_test
