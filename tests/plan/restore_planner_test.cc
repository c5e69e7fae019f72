#include "plan/restore_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/checksum.h"
#include "model_testing.h"
#include "plan/restore_planner.h"
#include "plan/save_planner.h"
#include "plan_text.h"

namespace belay::restore_planner_test {
namespace {

using ::testing::ElementsAre;

const StoredArray kVector{"v", DType::kU8, {12}, 0};
const StoredArray kText{"t", DType::kString, {}, 5};

// "t" in a dataset of its own, "v" in two of different files.
SavedCheckpoint Saved() {
  return {
      .arrays = {kText, kVector},
      .datasets = {{.array = 0, .file = 1, .box = {{0}, {5}}, .offset = 90},
                   {.array = 1, .file = 0, .box = {{0}, {8}}, .offset = 50},
                   {.array = 1, .file = 1, .box = {{8}, {4}}, .offset = 70}},
      .files = {{"f0"}, {"f1"}}};
}

std::vector<RankShards> OneWant(ShardInfo shard, int rank = 0) {
  std::vector<RankShards> wanted(rank + 1);
  wanted[rank].shards.push_back(std::move(shard));
  return wanted;
}

Status PlanStatus(const std::vector<RankShards>& wanted) {
  return PlanRestore(Saved(), wanted).status();
}

TEST(PlanRestoreTest, ReadsFromEachDataset) {
  const RestorePlan plan =
      PlanRestore(Saved(), OneWant(InfoOf(kVector, {{6}, {4}}))).value();
  const std::vector<ReadOrder>& orders = plan.ranks[0].orders;
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(orders[0].file, 0);
  EXPECT_EQ(orders[0].box, (Box{{6}, {2}}));
  EXPECT_EQ(orders[0].extent.box, (Box{{0}, {8}}));
  EXPECT_EQ(orders[0].extent.offset, 50);
  EXPECT_EQ(orders[0].first_block, 0);
  EXPECT_EQ(orders[1].file, 1);
  EXPECT_EQ(orders[1].box, (Box{{8}, {2}}));
  EXPECT_EQ(orders[1].extent.offset, 70);
  EXPECT_THAT(plan.arrays, ElementsAre(1));
  EXPECT_THAT(plan.first_blocks, ElementsAre(0));
  EXPECT_EQ(plan.num_blocks, 1);
  EXPECT_EQ(plan.bytes, 4);
}

TEST(PlanRestoreTest, TextsGetTheirStoredLength) {
  std::vector<RankShards> wanted =
      OneWant({.key = "t", .dtype = DType::kString}, 1);
  wanted[1].shards.push_back(InfoOf(kVector, {{0}, {0}}));
  const RestorePlan plan = PlanRestore(Saved(), wanted).value();
  ASSERT_EQ(plan.ranks[1].texts.size(), 1u);
  EXPECT_EQ(plan.ranks[1].texts[0].shard, 0);
  EXPECT_EQ(plan.ranks[1].texts[0].bytes, 5);
  ASSERT_EQ(plan.ranks[1].orders.size(), 1u);
  EXPECT_EQ(plan.ranks[1].orders[0].box, (Box{{0}, {5}}));
  EXPECT_EQ(plan.bytes, 5);
}

TEST(PlanRestoreTest, BytesWantedTwiceCountOnce) {
  std::vector<RankShards> wanted(3);
  wanted[0].shards.push_back(InfoOf(kVector, {{0}, {3}}));
  wanted[1].shards.push_back(InfoOf(kVector, {{0}, {8}}));
  wanted[2].shards.push_back(InfoOf(kVector, {{0}, {8}}));
  const RestorePlan plan = PlanRestore(Saved(), wanted).value();
  for (const RankReads& reads : plan.ranks) ASSERT_EQ(reads.orders.size(), 1u);
  EXPECT_EQ(plan.ranks[0].orders[0].first_block, -1);
  EXPECT_EQ(plan.ranks[1].orders[0].first_block, 0);
  EXPECT_EQ(plan.ranks[2].orders[0].first_block, -1);
  EXPECT_EQ(plan.bytes, 19);
}

TEST(PlanRestoreTest, BlocksAreNumberedOverTheArraysThatAreRead) {
  const int64_t bytes = kBlockBytes + 1;
  SavedCheckpoint saved;
  std::vector<RankShards> wanted(1);
  for (int32_t i = 0; i < 3; ++i) {
    saved.arrays.push_back({std::to_string(i), DType::kU8, {bytes}, 0});
    saved.datasets.push_back(
        {.array = i, .box = {{0}, {bytes}}, .offset = i * bytes});
    if (i == 0) continue;
    wanted[0].shards.push_back(InfoOf(saved.arrays[i], {{0}, {bytes}}));
  }
  const RestorePlan plan = PlanRestore(saved, wanted).value();
  EXPECT_THAT(plan.arrays, ElementsAre(1, 2));
  EXPECT_THAT(plan.first_blocks, ElementsAre(0, 2));
  EXPECT_EQ(plan.num_blocks, 4);
  EXPECT_EQ(plan.ranks[0].orders[1].first_block, 2);
}

TEST(PlanRestoreErrorTest, AbsentKeysAreCounted) {
  std::vector<RankShards> wanted =
      OneWant({.key = "x", .box = {{0}, {1}}, .replica = 0}, 1);
  wanted[1].shards.push_back({.key = "y"});
  wanted[1].shards.push_back({.key = "x"});
  wanted[1].shards.push_back(InfoOf(kVector, {{0}, {1}}));
  EXPECT_EQ(PlanStatus(wanted),
            absl::NotFoundError(
                "plan \"x\": key is not in the checkpoint "
                "(wanted by rank 1; 2 wanted keys are absent, the "
                "checkpoint has 2); close to it: \"t\", "
                "\"v\"; set RestoreOptions.missing to kIgnore if values may "
                "keep what they have"));
  wanted[1].shards[0].key = "model/v";
  EXPECT_THAT(std::string(PlanStatus(wanted).message()),
              ::testing::EndsWith("the checkpoint has 2); close to it: \"v\"; "
                                  "set RestoreOptions.missing to kIgnore if "
                                  "values may keep what they have"));
  wanted[1].shards = {{.key = "x"}};
  EXPECT_THAT(std::string(PlanStatus(wanted).message()),
              ::testing::HasSubstr("; 1 wanted key is absent, "));
}

// No advice that cannot help.
TEST(PlanRestoreErrorTest, ComplexNumbersDoNotBecomeReal) {
  SavedCheckpoint saved = Saved();
  saved.arrays[1].dtype = DType::kC64;
  ShardInfo shard = InfoOf(kVector, {{0}, {12}});
  EXPECT_THAT(
      std::string(PlanRestore(saved, OneWant(shard)).status().message()),
      ::testing::EndsWith("(need u8, found c64; wanted by rank 0)"));
}

TEST(PlanRestoreErrorTest, AnotherDtypeOrShape) {
  ShardInfo shard = InfoOf(kVector, {{0}, {12}});
  shard.dtype = DType::kI8;
  EXPECT_EQ(PlanStatus(OneWant(shard, 2)),
            absl::FailedPreconditionError(
                "plan \"v\": the stored dtype differs (need i8, found u8; "
                "wanted by rank 2); allow_dtype_cast converts it"));
  shard.dtype = DType::kU8;
  shard.global_shape = {12, 1};
  EXPECT_EQ(PlanStatus(OneWant(shard)),
            absl::FailedPreconditionError(
                "plan \"v\": the stored shape differs (need [12, 1], found "
                "[12]; wanted by rank 0)"));
  shard.global_shape = {13};
  EXPECT_EQ(PlanStatus(OneWant(shard)),
            absl::FailedPreconditionError(
                "plan \"v\": the stored shape differs (need [13], found [12]; "
                "wanted by rank 0); allow_shape_mismatch restores what both "
                "have in common"));
  // No option helps.
  shard.global_shape = {0};
  EXPECT_EQ(PlanStatus(OneWant(shard)),
            absl::FailedPreconditionError(
                "plan \"v\": the stored shape differs (need [0], found [12]; "
                "wanted by rank 0)"));
  shard.dtype = DType::kI8;
  EXPECT_EQ(PlanStatus(OneWant(shard)),
            absl::FailedPreconditionError(
                "plan \"v\": the stored dtype differs (need i8, found u8; "
                "wanted by rank 0)"));
}

TEST(PlanRestoreErrorTest, ABoxOutsideTheArray) {
  EXPECT_EQ(
      PlanStatus(OneWant(InfoOf(kVector, {{10}, {3}}), 1)),
      absl::OutOfRangeError("plan \"v\": rank 1: check box \"10,3\": box "
                            "reaches past axis 0 of [12] (need 13, found 12)"));
  EXPECT_EQ(PlanStatus(OneWant(InfoOf(kVector, {{0, 0}, {1, 1}}))),
            absl::InvalidArgumentError(
                "plan \"v\": rank 0: check box \"0,1:0,1\": wrong number of "
                "axes (need 1, found 2)"));
}

TEST(PlanRestoreErrorTest, OfSeveralErrorsTheFirstByRank) {
  std::vector<RankShards> wanted = OneWant(InfoOf(kVector, {{0}, {13}}), 1);
  wanted[0].shards.push_back(InfoOf(kVector, {{12}, {1}}));
  EXPECT_EQ(
      PlanStatus(wanted),
      absl::OutOfRangeError("plan \"v\": rank 0: check box \"12,1\": box "
                            "reaches past axis 0 of [12] (need 13, found 12)"));
}

TEST(PlanRestoreErrorTest, AnIndexWithHolesOrOverlaps) {
  SavedCheckpoint saved = Saved();
  const std::vector<RankShards> wanted = OneWant(InfoOf(kVector, {{6}, {4}}));
  saved.datasets[2].box = {{9}, {3}};
  EXPECT_EQ(PlanRestore(saved, wanted).status(),
            absl::DataLossError("plan \"v\": the index does not hold box "
                                "\"6,4\" exactly once (need 4 elements, found "
                                "3)"));
  saved.datasets[2].box = {{7}, {5}};
  EXPECT_EQ(PlanRestore(saved, wanted).status(),
            absl::DataLossError("plan \"v\": the index does not hold box "
                                "\"6,4\" exactly once (need 4 elements, found "
                                "5)"));
  saved.datasets.clear();
  EXPECT_EQ(PlanRestore(saved, wanted).status(),
            absl::DataLossError("plan \"v\": the index does not hold box "
                                "\"6,4\" exactly once (need 4 elements, found "
                                "0)"));
}

// Carries out the reads of one rank. Returns the bytes of each shard.
std::vector<std::string> SimulateReads(const SimulatedFiles& files,
                                       const std::vector<ShardInfo>& shards,
                                       const RankReads& reads) {
  std::vector<std::string> bytes;
  for (const ShardInfo& shard : shards) {
    const int64_t size = IoElementSize(shard.dtype);
    bytes.emplace_back(NumElements(IoBox(shard).shape) * size, '?');
  }
  for (const ReadOrder& order : reads.orders) {
    const ShardInfo& shard = shards[order.shard];
    const int64_t size = IoElementSize(shard.dtype);
    ForEachRun(order.box, IoBox(shard), order.extent.box,
               [&](const ElementRun& run) {
                 const int64_t from = order.extent.offset + run.b * size;
                 bytes[order.shard].replace(
                     run.a * size, run.length * size,
                     files.bytes[order.file].substr(from, run.length * size));
               });
  }
  return bytes;
}

// How often each element of an array counts, and whether it is wanted.
struct Counted {
  std::vector<int> counts;
  std::vector<int> wanted;
};

Counted CountReads(const StoredArray& array, int64_t first_block,
                   const RestorePlan& plan,
                   const std::vector<RankShards>& wanted) {
  const Box whole = WholeBox(IoShape(array));
  const auto elements = static_cast<size_t>(NumElements(whole.shape));
  Counted result{std::vector<int>(elements, 0), std::vector<int>(elements, 0)};
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    const std::vector<ShardInfo>& shards = wanted[rank].shards;
    for (const ShardInfo& shard : shards) {
      if (shard.key != array.key) continue;
      ForEachRun(IoBox(shard), whole, whole, [&](const ElementRun& run) {
        std::fill_n(result.wanted.begin() + run.a, run.length, 1);
      });
    }
    for (const ReadOrder& order : plan.ranks[rank].orders) {
      if (shards[order.shard].key != array.key) continue;
      if (order.first_block < 0) continue;
      EXPECT_EQ(order.first_block, first_block);
      ForEachRun(order.box, whole, whole, [&](const ElementRun& run) {
        for (int64_t i = 0; i < run.length; ++i) ++result.counts[run.a + i];
      });
    }
  }
  return result;
}

int64_t WantedBytes(const std::vector<RankShards>& wanted) {
  int64_t bytes = 0;
  for (const RankShards& rank : wanted) {
    for (const ShardInfo& shard : rank.shards) {
      bytes += NumElements(IoBox(shard).shape) * IoElementSize(shard.dtype);
    }
  }
  return bytes;
}

// The plan of all ranks, where each plans its own reads as far as it can.
RestorePlan PlanDivided(const SavedCheckpoint& saved,
                        const std::vector<RankShards>& wanted) {
  DividedWants wants =
      DivideWants(saved, ToListed(wanted), Dividing::kAllThatCanBe);
  RestorePlan plan = PlanRestore(saved, wants.central).value();
  AddLocalArrays(saved, wants, plan);
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    std::vector<WantedBox> boxes;
    for (const ShardInfo& shard : wanted[rank].shards) {
      boxes.push_back({.key = shard.key, .box = &shard.box});
    }
    AddLocalReads(wants.stacked, boxes, plan.ranks[rank]);
  }
  return plan;
}

void ExpectReads(const SimulatedFiles& files,
                 const std::vector<RankShards>& wanted,
                 const RestorePlan& plan) {
  SCOPED_TRACE(ToString(plan, 1000));
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    const std::vector<ShardInfo>& shards = wanted[rank].shards;
    const std::vector<std::string> bytes =
        SimulateReads(files, shards, plan.ranks[rank]);
    for (size_t i = 0; i < shards.size(); ++i) {
      const StoredArray array{shards[i].key, shards[i].dtype,
                              shards[i].global_shape, shards[i].string_bytes};
      ASSERT_EQ(bytes[i], PieceOf(array, IoBox(shards[i])));
    }
    const std::vector<TextLength>& texts = plan.ranks[rank].texts;
    ASSERT_EQ(
        std::ssize(texts),
        std::count_if(shards.begin(), shards.end(), [](const ShardInfo& shard) {
          return shard.dtype == DType::kString;
        }));
    for (const TextLength& text : texts) {
      ASSERT_EQ(shards[text.shard].dtype, DType::kString);
      ASSERT_EQ(text.bytes, shards[text.shard].string_bytes);
    }
  }
  for (size_t i = 0; i < plan.arrays.size(); ++i) {
    const Counted counted = CountReads(files.index.arrays[plan.arrays[i]],
                                       plan.first_blocks[i], plan, wanted);
    ASSERT_EQ(counted.counts, counted.wanted);
  }
}

int64_t ReadBytes(const std::vector<RankShards>& wanted,
                  const RestorePlan& plan) {
  int64_t bytes = 0;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const ReadOrder& order : plan.ranks[rank].orders) {
      const ShardInfo& shard = wanted[rank].shards[order.shard];
      bytes += NumElements(order.box.shape) * IoElementSize(shard.dtype);
    }
  }
  return bytes;
}

void ExpectRestored(const SimulatedFiles& files,
                    const std::vector<RankShards>& wanted) {
  const RestorePlan plan = PlanRestore(files.index, wanted).value();
  ExpectReads(files, wanted, plan);
  ASSERT_EQ(plan.bytes, WantedBytes(wanted));  // nothing is read in vain
  const RestorePlan divided = PlanDivided(files.index, wanted);
  ExpectReads(files, wanted, divided);
  ASSERT_EQ(ReadBytes(wanted, divided), plan.bytes);
  ASSERT_EQ(divided.num_blocks, plan.num_blocks);
}

class SaveAndRestoreTest : public ::testing::TestWithParam<FileLayout> {};

INSTANTIATE_TEST_SUITE_P(FileLayouts, SaveAndRestoreTest,
                         testing::Values(FileLayout::kShared,
                                         FileLayout::kPerNode,
                                         FileLayout::kPerTask));

TEST_P(SaveAndRestoreTest, IsTheIdentityForAnyNumbersOfRanks) {
  Random random(4);
  for (int i = 0; i < 400; ++i) {
    const std::vector<StoredArray> arrays = RandomArrays(random);
    const int writers = static_cast<int>(Uniform(1, 24, random));
    const int readers = static_cast<int>(Uniform(1, 24, random));
    const std::vector<RankShards> ranks = RandomCut(arrays, writers, random);
    std::vector<SaveArgsFor> args;
    if (!arrays.empty() && Uniform(0, 1, random) == 1) {
      args = {{".*", {.chunk_byte_size = Uniform(16, 3000, random)}}};
    }
    const SavePlan plan =
        PlanSave(ranks, {.file_layout = GetParam(),
                         .args = args,
                         .round_bytes = Uniform(16, 3000, random)})
            .value();
    const SimulatedFiles files = SimulateSave(plan, ranks);
    SCOPED_TRACE(ToString(plan, 1000));
    ASSERT_NO_FATAL_FAILURE(
        ExpectRestored(files, RandomCut(arrays, readers, random)));
    ASSERT_NO_FATAL_FAILURE(
        ExpectRestored(files, RandomWants(arrays, readers, random)));
  }
}

}  // namespace
}  // namespace belay::restore_planner_test
