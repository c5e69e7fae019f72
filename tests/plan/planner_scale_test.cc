// Plans for a thousand simulated ranks. What grows is counted, not timed.
#include <gtest/gtest.h>

#include <numeric>

#include "model_testing.h"
#include "plan/restore_planner.h"
#include "plan/save_planner.h"

namespace belay::planner_scale_test {
namespace {

constexpr int kRanks = 1000;

StoredArray Numbered(int number, Shape shape) {
  return {"layer" + std::to_string(number), DType::kF32, std::move(shape), 0};
}

// Lists `count` arrays of one shape, each in `layout`.
std::vector<RankShards> Listed(int count, const Shape& shape,
                               const Layout& layout) {
  std::vector<RankShards> ranks(layout.mesh().num_ranks());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const int number = static_cast<int>(rank);
    ranks[rank].node = number / 8;
    const Box box = layout.LocalBox(shape, number).value();
    for (int i = 0; i < count; ++i) {
      ranks[rank].shards.push_back(
          InfoOf(Numbered(i, shape), box, layout.Replica(number)));
    }
  }
  return ranks;
}

Layout Rows(int num_ranks) {
  return Layout::Create(Mesh::Create({{"x", num_ranks}}).value(), {{"x"}, {}})
      .value();
}

Layout Grid(int side) {
  return Layout::Create(Mesh::Create({{"x", side}, {"y", side}}).value(),
                        {{"x"}, {"y"}})
      .value();
}

SavePlan Planned(const std::vector<RankShards>& ranks, FileLayout layout) {
  return PlanSave(ranks, {.file_layout = layout}).value();
}

// The index that a save would leave; nothing lies where it says.
SavedCheckpoint IndexOf(const SavePlan& plan) {
  SavedCheckpoint saved{
      .arrays = plan.arrays, .datasets = plan.datasets, .files = plan.files};
  for (StoredDataset& dataset : saved.datasets) dataset.offset = 0;
  return saved;
}

template <typename Plan>
size_t NumOrders(const Plan& plan) {
  size_t orders = 0;
  for (const auto& rank : plan.ranks) orders += rank.orders.size();
  return orders;
}

double MaxToMean(const SavePlan& plan) {
  int64_t most = 0, sum = 0;
  for (const RankWrites& writes : plan.ranks) {
    most = std::max(most, writes.bytes);
    sum += writes.bytes;
  }
  return static_cast<double>(most) * static_cast<double>(plan.ranks.size()) /
         static_cast<double>(sum);
}

TEST(PlannerScaleTest, RowsOfTwoHundredArrays) {
  const std::vector<RankShards> ranks = Listed(200, {4000, 512}, Rows(kRanks));
  for (FileLayout layout : {FileLayout::kShared, FileLayout::kPerTask}) {
    const SavePlan plan = Planned(ranks, layout);
    EXPECT_EQ(NumOrders(plan), 200u * kRanks);
    EXPECT_EQ(MaxToMean(plan), 1);
    // The same cut on fewer ranks: each reads what four have written.
    const std::vector<RankShards> wanted =
        Listed(200, {4000, 512}, Rows(kRanks / 4));
    const RestorePlan restore = PlanRestore(IndexOf(plan), wanted).value();
    const size_t per_want = layout == FileLayout::kShared ? 1 : 4;
    EXPECT_EQ(NumOrders(restore), 200u * (kRanks / 4) * per_want);
  }
}

TEST(PlannerScaleTest, ReplicasOfTwoThousandArrays) {
  const Layout everywhere =
      Layout::Replicated(Mesh::Create({{"x", kRanks}}).value(), 2);
  const std::vector<RankShards> ranks = Listed(2000, {1000, 1000}, everywhere);
  const SavePlan plan = Planned(ranks, FileLayout::kShared);
  // One piece per array and one more, of up to three boxes, for each cut.
  EXPECT_LE(NumOrders(plan), 2000u + 3 * kRanks);
  EXPECT_LE(MaxToMean(plan), 1.01);
}

TEST(PlannerScaleTest, SquaresOfTwoHundredArrays) {
  const std::vector<RankShards> ranks = Listed(200, {2048, 2048}, Grid(32));
  const SavePlan plan = Planned(ranks, FileLayout::kShared);
  EXPECT_EQ(plan.datasets[0].chunk, (Shape{64, 64}));
  EXPECT_EQ(NumOrders(plan), 200u * 1024);
  // Rows of a square mesh cross 32 chunks each.
  const RestorePlan restore =
      PlanRestore(IndexOf(plan), Listed(200, {2048, 2048}, Rows(32))).value();
  EXPECT_EQ(NumOrders(restore), 200u * 1024);
}

TEST(PlannerScaleTest, IrregularCutIsChecked) {
  // Pairs of rows, shifted by one in every other column: no grid.
  std::vector<RankShards> ranks(kRanks);
  const StoredArray array = Numbered(0, {1000, 200});
  for (int64_t i = 0; i < 1000; ++i) {
    for (int64_t j = 0; j < 20; ++j) {
      const int64_t begin = std::max<int64_t>(0, 2 * i - j % 2);
      const int64_t end = std::min<int64_t>(1000, 2 * i + 2 - j % 2);
      if (begin >= end) continue;
      ranks[i].shards.push_back(
          InfoOf(array, {{begin, 10 * j}, {end - begin, 10}}));
    }
  }
  EXPECT_EQ(NumOrders(Planned(ranks, FileLayout::kPerTask)), 10010u);
  ranks[77].shards[3].box.shape[0] = 1;
  EXPECT_EQ(PlanSave(ranks, {}).status(),
            absl::InvalidArgumentError(
                "plan \"layer0\": no rank holds box \"154,1:30,10\" (need "
                "200000 elements of shape [1000, 200], found 199990)"));
}

TEST(PlannerScaleTest, RowsWithHalos) {
  const SavePlan plan =
      Planned(Listed(200, {4000, 512}, Rows(kRanks)), FileLayout::kPerTask);
  std::vector<RankShards> wanted = Listed(200, {4000, 512}, Rows(kRanks));
  for (RankShards& rank : wanted) {
    for (ShardInfo& shard : rank.shards) {
      const int64_t end = shard.box.offset[0] + 4;
      shard.box.offset[0] = std::max<int64_t>(0, shard.box.offset[0] - 1);
      shard.box.shape[0] =
          std::min<int64_t>(4000, end + 1) - shard.box.offset[0];
    }
  }
  const RestorePlan restore = PlanRestore(IndexOf(plan), wanted).value();
  EXPECT_EQ(restore.bytes, int64_t{200} * (4000 + 2 * 999) * 512 * 4);
  // Each want meets three datasets and is cut at most twice more.
  EXPECT_LE(NumOrders(restore), 200u * kRanks * 5);
}

}  // namespace
}  // namespace belay::planner_scale_test
