// Which reads ranks plan by themselves. That these are the right ones, for
// random arrays and cuts, is tested in restore_planner_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_testing.h"
#include "plan/restore_planner.h"

namespace belay::local_reads_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const StoredArray kRows{"rows", DType::kF32, {12, 4}, 0};
const StoredArray kOther{"other", DType::kF32, {12}, 0};
const StoredArray kText{"text", DType::kString, {}, 5};

// "other" in one dataset, "rows" in three of different files.
SavedCheckpoint Saved() {
  return {
      .arrays = {kOther, kRows, kText},
      .datasets = {{.array = 0, .file = 0, .box = {{0}, {12}}, .offset = 40},
                   {.array = 1, .box = {{0, 0}, {6, 4}}, .offset = 90},
                   {.array = 1, .file = 1, .box = {{6, 0}, {4, 4}}},
                   {.array = 1, .file = 2, .box = {{10, 0}, {2, 4}}},
                   {.array = 2, .file = 0, .box = {{0}, {5}}, .offset = 0}},
      .files = {{"f0"}, {"f1"}, {"f2"}}};
}

// Two ranks, of which each wants a half of the rows.
std::vector<RankShards> Halves() {
  std::vector<RankShards> wanted(2);
  wanted[0].shards = {InfoOf(kRows, {{0, 0}, {7, 4}})};
  wanted[1].shards = {InfoOf(kRows, {{7, 0}, {5, 4}})};
  return wanted;
}

DividedWants Divide(const std::vector<RankShards>& wanted,
                    const SavedCheckpoint& saved = Saved()) {
  return DivideWants(saved, ToListed(wanted), Dividing::kAllThatCanBe);
}

std::vector<ReadOrder> OwnOrders(const DividedWants& wants,
                                 const RankShards& mine) {
  std::vector<WantedBox> boxes;
  for (const ShardInfo& shard : mine.shards) {
    boxes.push_back({.key = shard.key, .box = &shard.box});
  }
  // As they come to another rank.
  std::vector<StackedArray> told;
  for (const StackedArray& array : wants.stacked) {
    told.push_back(Decode<StackedArray>(Encode(array)).value());
  }
  RankReads reads;
  AddLocalReads(told, boxes, reads);
  return reads.orders;
}

TEST(LocalReadsTest, RowsAreFoundByEachRank) {
  DividedWants wants = Divide(Halves());
  EXPECT_THAT(wants.own, ElementsAre(1));
  EXPECT_THAT(wants.central[0].shards, IsEmpty());
  EXPECT_THAT(wants.central[1].shards, IsEmpty());
  RestorePlan plan = PlanRestore(Saved(), wants.central).value();
  AddLocalArrays(Saved(), wants, plan);
  EXPECT_THAT(plan.arrays, ElementsAre(1));
  EXPECT_THAT(plan.first_blocks, ElementsAre(0));
  EXPECT_EQ(plan.num_blocks, 1);
  const std::vector<ReadOrder> orders = OwnOrders(wants, Halves()[1]);
  ASSERT_THAT(orders, SizeIs(2));
  EXPECT_EQ(orders[0].file, 1);
  EXPECT_EQ(orders[0].box, (Box{{7, 0}, {3, 4}}));
  EXPECT_EQ(orders[0].extent.box, (Box{{6, 0}, {4, 4}}));
  EXPECT_EQ(orders[0].first_block, 0);
  EXPECT_EQ(orders[1].file, 2);
  EXPECT_EQ(orders[1].box, (Box{{10, 0}, {2, 4}}));
}

TEST(LocalReadsTest, RootPlansTheRestUnderItsNumbers) {
  std::vector<RankShards> wanted = Halves();
  for (RankShards& rank : wanted) {
    rank.shards.push_back(InfoOf(kOther, {{0}, {12}}));
    rank.shards.push_back(InfoOf(kText, {}));
  }
  DividedWants wants = Divide(wanted);
  EXPECT_THAT(wants.own, ElementsAre(1));
  EXPECT_THAT(wants.numbers, ElementsAre(ElementsAre(1, 2), ElementsAre(1, 2)));
  RestorePlan plan = PlanRestore(Saved(), wants.central).value();
  AddLocalArrays(Saved(), wants, plan);
  EXPECT_THAT(plan.arrays, ElementsAre(0, 2, 1));
  EXPECT_THAT(plan.first_blocks, ElementsAre(0, 1, 2));
  for (const RankReads& reads : plan.ranks) {
    ASSERT_THAT(reads.texts, SizeIs(1));
    EXPECT_EQ(reads.texts[0].shard, 2);
    ASSERT_THAT(reads.orders, SizeIs(2));
    EXPECT_EQ(reads.orders[0].shard, 2);
    EXPECT_EQ(reads.orders[1].shard, 1);
  }
}

// Rank 1 hands to rank 0 what it reads for both: under their own numbers.
TEST(LocalReadsTest, DeliveriesGoToTheNumbersOfTheirRanks) {
  std::vector<RankShards> wanted = Halves();
  wanted[0].shards.push_back(InfoOf(kOther, {{0}, {12}}));
  wanted[1].shards.insert(wanted[1].shards.begin(), 2, InfoOf(kText, {}));
  wanted[1].shards.push_back(InfoOf(kOther, {{0}, {12}}));
  DividedWants wants = Divide(wanted);
  RestorePlan plan =
      PlanRestore(Saved(), wants.central, {.sharing = ReadSharing::kOnce})
          .value();
  AddLocalArrays(Saved(), wants, plan);
  std::vector<std::vector<int32_t>> shards(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    for (const Delivery& delivery : plan.ranks[rank].deliveries) {
      if (delivery.box == WholeBox({5})) continue;  // the text, for rank 1
      shards[rank].push_back(delivery.shard);
    }
  }
  EXPECT_THAT(shards[0], Each(1));
  EXPECT_THAT(shards[0], Not(IsEmpty()));
  EXPECT_THAT(shards[1], Each(3));
  EXPECT_THAT(shards[1], Not(IsEmpty()));
}

// Rank 0 levels what ranks read where there is something to level.
TEST(LocalReadsTest, MuchElseKeepsAllForRoot) {
  SavedCheckpoint saved = Saved();
  saved.arrays[1].shape = {12, 400};
  for (size_t i = 1; i < 4; ++i) saved.datasets[i].box.shape[1] = 400;
  std::vector<RankShards> wanted(2);
  for (int64_t rank = 0; rank < 2; ++rank) {
    wanted[rank].shards = {
        InfoOf(saved.arrays[1], {{6 * rank, 0}, {6, 400}}),
        InfoOf(saved.arrays[0], {{0}, {12}}),
    };
  }
  const auto own = [&] {
    return DivideWants(saved, ToListed(wanted), Dividing::kWhatPays).own;
  };
  EXPECT_THAT(own(), ElementsAre(1));
  saved.arrays[0].shape = {12 * 400};
  for (RankShards& rank : wanted) {
    rank.shards[1] = InfoOf(saved.arrays[0], {{0}, {12 * 400}});
  }
  EXPECT_THAT(own(), IsEmpty());
}

// What one of many ranks wants is not told to all of them.
TEST(LocalReadsTest, WhatFewWantIsForRoot) {
  std::vector<RankShards> wanted = Halves();
  const auto own = [&] {
    return DivideWants(Saved(), ToListed(wanted), Dividing::kWhatPays).own;
  };
  EXPECT_THAT(own(), ElementsAre(1));
  wanted.resize(100);
  EXPECT_THAT(own(), IsEmpty());
}

TEST(LocalReadsTest, WhatTwoRanksWantIsForRoot) {
  std::vector<RankShards> wanted = Halves();
  wanted[1].shards[0].box = {{6, 0}, {6, 4}};
  const DividedWants wants = Divide(wanted);
  EXPECT_THAT(wants.own, IsEmpty());
  EXPECT_THAT(wants.central[0].shards, SizeIs(1));
}

TEST(LocalReadsTest, NobodyDividesUnasked) {
  const DividedWants wants =
      DivideWants(Saved(), ToListed(Halves()), Dividing::kNothing);
  EXPECT_THAT(wants.own, IsEmpty());
  EXPECT_THAT(wants.central[1].shards, SizeIs(1));
}

// Each of these is told by the planner of the rest.
TEST(LocalReadsTest, MistakesAreForRoot) {
  std::vector<RankShards> wanted = Halves();
  wanted[0].shards[0].dtype = DType::kF64;
  EXPECT_THAT(Divide(wanted).own, IsEmpty());
  wanted = Halves();
  wanted[0].shards[0].global_shape = {12, 5};
  EXPECT_THAT(Divide(wanted).own, IsEmpty());
  wanted = Halves();
  wanted[1].shards[0].box = {{7, 0}, {6, 4}};
  EXPECT_THAT(Divide(wanted).own, IsEmpty());
  wanted = Halves();
  wanted[1].shards[0].key = "absent";
  EXPECT_THAT(Divide(wanted).own, ElementsAre(1));
  EXPECT_EQ(PlanRestore(Saved(), Divide(wanted).central).status().code(),
            absl::StatusCode::kNotFound);
}

// An index with a gap, an overlap, or without an end.
TEST(LocalReadsTest, DatasetsThatAreNoStackAreForRoot) {
  for (const int64_t begin : {5, 7}) {
    SavedCheckpoint saved = Saved();
    saved.datasets[2].box.offset[0] = begin;
    EXPECT_THAT(Divide(Halves(), saved).own, IsEmpty()) << begin;
    EXPECT_EQ(PlanRestore(saved, Halves()).status().code(),
              absl::StatusCode::kDataLoss);
  }
  SavedCheckpoint saved = Saved();
  saved.datasets.erase(saved.datasets.begin() + 3);
  EXPECT_THAT(Divide(Halves(), saved).own, IsEmpty());
  saved = Saved();
  saved.datasets[1].filters = {{.id = 1, .parameters = {6}}};
  EXPECT_THAT(Divide(Halves(), saved).own, IsEmpty());
  saved = Saved();
  saved.datasets[2].chunk = {2, 4};  // the others have none
  EXPECT_THAT(Divide(Halves(), saved).own, IsEmpty());
}

TEST(LocalReadsTest, ArraysWithoutElementsAreForRoot) {
  std::vector<RankShards> wanted = Halves();
  for (RankShards& rank : wanted) rank.shards[0].box = {{12, 0}, {0, 4}};
  EXPECT_THAT(Divide(wanted).own, IsEmpty());
}

// What a thousand ranks are told of arrays that are laid out alike does not
// grow with their number.
TEST(LocalReadsTest, LaidOutRowsTakeFewWords) {
  constexpr int kRanks = 1000;
  const Layout layout =
      Layout::Create(Mesh::Create({{"x", kRanks}}).value(), {{"x"}, {}})
          .value();
  const StoredArray array{"w", DType::kF32, {2500, 4}, 0};
  SavedCheckpoint saved{.arrays = {array}};
  std::vector<RankShards> wanted(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Box box = layout.LocalBox(array.shape, rank).value();
    saved.datasets.push_back({.file = rank, .box = box, .offset = 4096});
    wanted[rank].shards.push_back(InfoOf(array, box));
    wanted[rank].shards[0].layout = layout.ToString();
  }
  const DividedWants wants = Divide(wanted, saved);
  ASSERT_THAT(wants.stacked, SizeIs(1));
  EXPECT_LE(Encode(wants.stacked[0]).size(), 256u);
  for (const int rank : {0, 499, 500, 999}) {
    const std::vector<ReadOrder> orders = OwnOrders(wants, wanted[rank]);
    ASSERT_THAT(orders, SizeIs(1));
    EXPECT_EQ(orders[0].file, rank);
    EXPECT_EQ(orders[0].box, saved.datasets[rank].box);
    EXPECT_EQ(orders[0].extent.offset, 4096);
  }
}

}  // namespace
}  // namespace belay::local_reads_test
