#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "model_testing.h"
#include "plan/restore_planner.h"
#include "plan/save_planner.h"
#include "plan_text.h"

namespace belay::plan_test {
namespace {

using ::testing::ElementsAre;

const StoredArray kMatrix{"m", DType::kF64, {2, 6}, 0};
const StoredArray kText{"t", DType::kString, {}, 5};

TEST(IoShapeTest, TextsAreArraysOfBytes) {
  EXPECT_EQ(IoShape(kText), Shape{5});
  EXPECT_EQ(IoShape(kMatrix), (Shape{2, 6}));
  EXPECT_EQ(IoElementSize(DType::kString), 1);
  EXPECT_EQ(IoElementSize(DType::kC128), 16);
  EXPECT_EQ(ArrayBytes(kText), 5);
  EXPECT_EQ(ArrayBytes(kMatrix), 96);
  EXPECT_EQ(ArrayBytes({"s", DType::kF32, {}, 0}), 4);
  EXPECT_EQ(IoBox(InfoOf(kText, {})), (Box{{0}, {5}}));
  EXPECT_EQ(IoBox(InfoOf(kMatrix, {{0, 1}, {2, 3}})), (Box{{0, 1}, {2, 3}}));
}

TEST(ChunkTest, GridAndExtents) {
  const StoredDataset dataset{
      .box = {{10, 0}, {5, 7}}, .chunk = {2, 3}, .offset = 999};
  EXPECT_EQ(ChunkGrid(dataset), (Shape{3, 3}));
  const Extent last = ChunkExtent(dataset, {2, 2}, 4);
  EXPECT_EQ(last.box, (Box{{14, 6}, {2, 3}}));  // overhangs
  EXPECT_EQ(last.offset, 8 * 6 * 4);
}

std::vector<Extent> ExtentsOf(const StoredDataset& dataset, const Box& box,
                              int64_t element_size) {
  std::vector<Extent> extents;
  ForEachExtent(dataset, box, element_size,
                [&](Extent& extent) { extents.push_back(extent); });
  return extents;
}

TEST(ForEachExtentTest, Contiguous) {
  const StoredDataset dataset{.box = {{4}, {6}}};
  const std::vector<Extent> extents = ExtentsOf(dataset, {{0}, {5}}, 4);
  ASSERT_EQ(extents.size(), 1u);
  EXPECT_EQ(extents[0].box, (Box{{4}, {6}}));
  EXPECT_EQ(extents[0].offset, 0);
  EXPECT_TRUE(ExtentsOf(dataset, {{0}, {4}}, 4).empty());
  EXPECT_TRUE(ExtentsOf(dataset, {{5}, {0}}, 4).empty());
}

TEST(ForEachExtentTest, ChunksThatMeetTheBoxAscending) {
  const StoredDataset dataset{.box = {{0, 0}, {4, 6}}, .chunk = {2, 2}};
  std::vector<int64_t> offsets;
  for (const Extent& extent : ExtentsOf(dataset, {{1, 3}, {2, 3}}, 1)) {
    offsets.push_back(extent.offset);
  }
  EXPECT_THAT(offsets, ElementsAre(4, 8, 16, 20));
}

TEST(TryForEachExtentTest, StopsAtTheFirstErrorOfTrillionsOfChunks) {
  const StoredDataset dataset{.box = {{0}, {int64_t{1} << 40}}, .chunk = {1}};
  int visits = 0;
  const Status status =
      TryForEachExtent(dataset, dataset.box, 1, [&](Extent& extent) {
        ++visits;
        return extent.offset < 2 ? absl::OkStatus() : absl::DataLossError("x");
      });
  EXPECT_EQ(status, absl::DataLossError("x"));
  EXPECT_EQ(visits, 3);
}

std::vector<RankShards> TwoRanks() {
  std::vector<RankShards> ranks(2);
  for (int64_t i = 0; i < 2; ++i) {
    ranks[i].shards.push_back(InfoOf(kMatrix, {{0, 3 * i}, {2, 3}}));
  }
  ranks[1].shards.push_back(InfoOf(kText, {}));
  return ranks;
}

TEST(ToStringTest, SavePlan) {
  const SavePlan plan = PlanSave(TwoRanks(), {.round_bytes = 24}).value();
  EXPECT_EQ(ToString(plan, 2),
            "save plan: 2 arrays, 2 datasets, 1 files, 2 ranks, 3 rounds, 2 "
            "blocks\n"
            "file 0 \"data_00000_of_00001.h5\": created by rank 1, 2 writers\n"
            "dataset 0: \"m\" f64 [2, 6], box 0,2:0,6, file 0, chunk [2, 3]\n"
            "dataset 1: \"t\" string [], box 0,5, file 0, contiguous\n"
            "rank 0: 48 bytes in 2 orders\n"
            "  round 0: shard 0 box 0,1:0,3 -> dataset 0\n"
            "  round 1: shard 0 box 1,1:0,3 -> dataset 0\n"
            "rank 1: 53 bytes in 3 orders\n"
            "  round 0: shard 0 box 0,1:3,3 -> dataset 0\n"
            "  round 1: shard 0 box 1,1:3,3 -> dataset 0\n"
            "  ...\n");
}

TEST(WorkOfRanksTest, NamesTheFirstArray) {
  std::vector<RankShards> ranks = TwoRanks();
  ranks.emplace_back();
  EXPECT_THAT(
      DescribeWork(PlanSave(ranks, {}).value()),
      ::testing::ElementsAre("writes \"m\"", "writes \"m\" and 1 more dataset",
                             "writes nothing"));
}

TEST(ToStringTest, RestorePlan) {
  const std::vector<RankShards> ranks = TwoRanks();
  const SimulatedFiles files = SimulateSave(PlanSave(ranks, {}).value(), ranks);
  std::vector<RankShards> wanted(2);
  wanted[0].shards.push_back(InfoOf(kMatrix, {{1, 0}, {1, 6}}));
  wanted[1].shards.push_back(InfoOf(kMatrix, {{1, 0}, {1, 6}}));
  const RestorePlan plan = PlanRestore(files.index, wanted).value();
  EXPECT_EQ(ToString(plan, 1),
            "restore plan: 1 arrays, 2 ranks, 96 bytes, 1 blocks; each rank "
            "reads, as asked\n"
            "rank 0: 2 orders\n"
            "  file 0: box 1,1:0,3 of extent 0,2:0,3 at byte 6 -> shard 0, "
            "checked\n"
            "  ...\n"
            "rank 1: 2 orders\n"
            "  file 0: box 1,1:0,3 of extent 0,2:0,3 at byte 6 -> shard 0\n"
            "  ...\n");
  const RestorePlan once =
      PlanRestore(files.index, wanted, {.sharing = ReadSharing::kOnce}).value();
  EXPECT_EQ(ToString(once),
            "restore plan: 1 arrays, 2 ranks, 48 bytes, 1 blocks; each byte is "
            "read once, 48 of 96 are saved\n"
            "rank 0: 2 orders, 2 deliveries\n"
            "  file 0: box 1,1:0,3 of extent 0,2:0,3 at byte 6 -> stream 0, "
            "checked\n"
            "  file 0: box 1,1:3,3 of extent 0,2:3,3 at byte 54 -> stream 64, "
            "checked\n"
            "rank 1: 0 orders, 2 deliveries\n");
}

bool Same(const Extent& a, const Extent& b) {
  return a.box == b.box && a.offset == b.offset;
}

TEST(CodecTest, RankWrites) {
  Random random(10);
  for (int i = 0; i < 50; ++i) {
    const std::vector<RankShards> ranks =
        RandomCut(RandomArrays(random), 6, random);
    const SavePlan plan = PlanSave(ranks, {.round_bytes = 500}).value();
    const auto all =
        Decode<std::vector<RankWrites>>(Encode(plan.ranks)).value();
    ASSERT_EQ(all.size(), plan.ranks.size());
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const RankWrites &back = all[rank], &writes = plan.ranks[rank];
      EXPECT_EQ(back.bytes, writes.bytes);
      ASSERT_EQ(back.orders.size(), writes.orders.size());
      for (size_t k = 0; k < back.orders.size(); ++k) {
        const WriteOrder& a = back.orders[k];
        const WriteOrder& b = writes.orders[k];
        EXPECT_EQ(std::tie(a.shard, a.dataset, a.round, a.first_block, a.box),
                  std::tie(b.shard, b.dataset, b.round, b.first_block, b.box));
        EXPECT_TRUE(Same(a.extent, b.extent));
      }
    }
  }
}

TEST(CodecTest, RankReads) {
  RankReads reads;
  reads.texts = {{1, 5}, {2, 1 << 20}};
  reads.orders.push_back({.shard = 1,
                          .file = 2,
                          .first_block = -1,
                          .box = {{3}, {4}},
                          .extent = {.box = {{0}, {9}}, .offset = 77}});
  reads.orders.push_back({});
  reads.orders[0].position = 640;
  reads.deliveries.push_back({.shard = 3,
                              .reader = 4,
                              .position = 128,
                              .bytes = 40,
                              .box = {{1, 2}, {2, 5}}});
  const RankReads back = Decode<RankReads>(Encode(reads)).value();
  ASSERT_EQ(back.texts.size(), 2u);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(back.texts[k].shard, reads.texts[k].shard);
    EXPECT_EQ(back.texts[k].bytes, reads.texts[k].bytes);
  }
  ASSERT_EQ(back.orders.size(), 2u);
  for (size_t k = 0; k < 2; ++k) {
    const ReadOrder& a = back.orders[k];
    const ReadOrder& b = reads.orders[k];
    EXPECT_EQ(std::tie(a.shard, a.file, a.first_block, a.box, a.position),
              std::tie(b.shard, b.file, b.first_block, b.box, b.position));
    EXPECT_TRUE(Same(a.extent, b.extent));
  }
  ASSERT_EQ(back.deliveries.size(), 1u);
  const Delivery &a = back.deliveries[0], &b = reads.deliveries[0];
  EXPECT_EQ(std::tie(a.shard, a.reader, a.position, a.bytes, a.box),
            std::tie(b.shard, b.reader, b.position, b.bytes, b.box));
}

TEST(CodecTest, RankTransits) {
  const RankTransits transits{.sends = {{1, 64, 10}, {2, 0, 3}},
                              .receives = {{5, 128, 1}}};
  const RankTransits back = Decode<RankTransits>(Encode(transits)).value();
  ASSERT_EQ(back.sends.size(), 2u);
  EXPECT_EQ(back.sends[0].position, 64);
  EXPECT_EQ(back.sends[1].peer, 2);
  ASSERT_EQ(back.receives.size(), 1u);
  EXPECT_EQ(back.receives[0].bytes, 1);
}

}  // namespace
}  // namespace belay::plan_test
