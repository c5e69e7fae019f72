#include "save/transfer_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace belay::transfer_choice_test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr Striping kLustre = {FileSystem::kLustre, false, kMiB, 4};

// A file of bytes, of which each rank writes the next `each`, from `offset`.
SavePlan PlanOf(int ranks, int64_t each, int64_t offset) {
  SavePlan plan;
  plan.arrays = {{.key = "w", .dtype = DType::kU8, .shape = {ranks * each}}};
  plan.datasets = {{.box = WholeBox({ranks * each}), .offset = offset}};
  plan.files = {{.name = "data"}};
  for (int rank = 0; rank < ranks; ++rank) {
    plan.ranks.push_back(
        {.bytes = each,
         .orders = {{.box = {{rank * each}, {each}},
                     .extent = {WholeBox({ranks * each}), offset}}}});
  }
  return plan;
}

PlannedStripes CountOf(const SavePlan& plan, const std::vector<int32_t>& nodes,
                       const Striping& striping) {
  return CountStripesOfPlan(plan, nodes, std::vector<Striping>{striping});
}

TEST(TransferChoiceTest, StripesOfSeveralNodesAreGathered) {
  // Each rank a stripe and a half.
  const SavePlan plan = PlanOf(4, 3 * kMiB / 2, 0);
  const PlannedStripes stripes = CountOf(plan, {0, 1, 2, 3}, kLustre);
  EXPECT_EQ(stripes.nodes, 4);
  EXPECT_EQ(stripes.by_nodes, (StripeUse{6, 2}));
  EXPECT_TRUE(stripes.is_exact);
  const TransferChoice choice =
      ChooseTransfer(Transfer::kAuto, FileLayout::kShared, kMiB, stripes);
  EXPECT_EQ(choice.transfer, Transfer::kTwoPhase);
  EXPECT_EQ(choice.note,
            "two phases, as nodes would else share 2 of 6 stripes of 1.0 MiB "
            "(Lustre)");
}

TEST(TransferChoiceTest, RanksOfANodeShareStripesWithoutHarm) {
  const SavePlan plan = PlanOf(4, 3 * kMiB / 2, 0);
  const PlannedStripes two = CountOf(plan, {0, 0, 2, 2}, kLustre);
  EXPECT_EQ(two.by_nodes, (StripeUse{6, 0}));
  const TransferChoice choice =
      ChooseTransfer(Transfer::kAuto, FileLayout::kShared, kMiB, two);
  EXPECT_EQ(choice.transfer, Transfer::kIndependent);
  EXPECT_EQ(choice.note,
            "positional writes, as nodes share none of 6 stripes of 1.0 MiB "
            "(Lustre)");
  const PlannedStripes one = CountOf(plan, {0, 0, 0, 0}, kLustre);
  EXPECT_EQ(one.nodes, 1);
  EXPECT_EQ(
      ChooseTransfer(Transfer::kAuto, FileLayout::kShared, kMiB, one).note, "");
}

TEST(TransferChoiceTest, MoreThanOneOfFourIsTheBorder) {
  PlannedStripes stripes{
      .striping = kLustre, .nodes = 2, .by_nodes = {400, 100}};
  EXPECT_EQ(ChooseTransfer(Transfer::kAuto, FileLayout::kShared, kMiB, stripes)
                .transfer,
            Transfer::kIndependent);
  stripes.by_nodes.shared = 101;
  EXPECT_EQ(ChooseTransfer(Transfer::kAuto, FileLayout::kShared, kMiB, stripes)
                .transfer,
            Transfer::kTwoPhase);
  stripes.by_nodes = {};
  EXPECT_EQ(ChooseTransfer(Transfer::kAuto, FileLayout::kShared, kMiB, stripes)
                .transfer,
            Transfer::kIndependent);
}

TEST(TransferChoiceTest, WhatIsAskedForStays) {
  const PlannedStripes stripes{
      .striping = kLustre, .nodes = 2, .by_nodes = {4, 4}};
  for (const Transfer asked : {Transfer::kCollective, Transfer::kIndependent,
                               Transfer::kHdf5, Transfer::kTwoPhase}) {
    const TransferChoice choice =
        ChooseTransfer(asked, FileLayout::kShared, 10, stripes);
    EXPECT_EQ(choice.transfer, asked);
    EXPECT_EQ(choice.note, "");
  }
}

TEST(TransferChoiceTest, AFileOfOneRankIsWrittenAlone) {
  const PlannedStripes stripes{
      .striping = kLustre, .nodes = 2, .by_nodes = {4, 4}};
  for (const Transfer asked : {Transfer::kCollective, Transfer::kTwoPhase}) {
    const TransferChoice choice =
        ChooseTransfer(asked, FileLayout::kPerTask, 10, stripes);
    EXPECT_EQ(choice.transfer, Transfer::kIndependent);
    EXPECT_EQ(choice.note,
              "positional writes, as each rank writes a file of its own: there "
              "is nothing to write together");
  }
  for (const auto& [asked, taken] :
       {std::pair(Transfer::kAuto, Transfer::kIndependent),
        {Transfer::kIndependent, Transfer::kIndependent},
        {Transfer::kHdf5, Transfer::kHdf5}}) {
    const TransferChoice choice =
        ChooseTransfer(asked, FileLayout::kPerTask, 10, stripes);
    EXPECT_EQ(choice.transfer, taken);
    EXPECT_EQ(choice.note, "");
  }
}

TEST(TransferChoiceTest, ShortRunsAreGatheredAnywhere) {
  const PlannedStripes stripes{.striping = {FileSystem::kOther, true, kMiB, 0},
                               .nodes = 2,
                               .by_nodes = {400, 0}};
  const TransferChoice striped =
      ChooseTransfer(Transfer::kAuto, FileLayout::kShared, 100, stripes);
  EXPECT_EQ(striped.transfer, Transfer::kTwoPhase);
  EXPECT_EQ(striped.note,
            "two phases, as runs are short; what a rank writes fits stripes of "
            "1.0 MiB (striping_unit)");
  const TransferChoice local =
      ChooseTransfer(Transfer::kAuto, FileLayout::kShared, 100, {});
  EXPECT_EQ(local.transfer, Transfer::kTwoPhase);
  EXPECT_EQ(local.note, "");
  EXPECT_EQ(
      ChooseTransfer(Transfer::kAuto, FileLayout::kShared, kMiB, {}).transfer,
      Transfer::kIndependent);
}

TEST(TransferChoiceTest, GlusterFsHasNoStripes) {
  const SavePlan plan = PlanOf(2, kMiB / 3, 0);
  const PlannedStripes stripes =
      CountOf(plan, {0, 1}, {FileSystem::kGlusterFs, false, 0, 0});
  EXPECT_EQ(stripes.by_nodes, StripeUse{});
  const TransferChoice choice =
      ChooseTransfer(Transfer::kAuto, FileLayout::kShared, kMiB, stripes);
  EXPECT_EQ(choice.transfer, Transfer::kIndependent);
  EXPECT_EQ(choice.note,
            "positional writes, as GlusterFS keeps a file on one server");
}

// Those of files with no stripes, and datasets that HDF5 places, do not count.
TEST(TransferChoiceTest, FilesCountAsFarAsTheyAreStriped) {
  SavePlan plan = PlanOf(2, 3 * kMiB / 2, 0);
  plan.files.push_back({.name = "more"});
  plan.datasets.push_back(plan.datasets[0]);
  plan.datasets.push_back(plan.datasets[0]);
  plan.datasets[1].filters = {{}};
  plan.datasets[2].file = 1;
  for (RankWrites& writes : plan.ranks) {
    for (int32_t dataset : {1, 2}) {
      writes.orders.push_back(writes.orders[0]);
      writes.orders.back().dataset = dataset;
    }
  }
  const std::vector<int32_t> nodes = {0, 1};
  const std::vector<Striping> second = {{}, kLustre};
  const PlannedStripes found = CountStripesOfPlan(plan, nodes, second);
  EXPECT_EQ(found.striping.stripe_bytes, kMiB);
  EXPECT_EQ(found.by_nodes, (StripeUse{3, 1}));
  const std::vector<Striping> both = {kLustre, kLustre};
  EXPECT_EQ(CountStripesOfPlan(plan, nodes, both).by_nodes, (StripeUse{6, 2}));
  const std::vector<Striping> none = {{}, {}};
  EXPECT_EQ(CountStripesOfPlan(plan, nodes, none).by_nodes, StripeUse{});
  EXPECT_EQ(CountStripesOfPlan({}, {}, {}).nodes, 0);
}

TEST(TransferChoiceTest, PlannedStripesSurviveAMessage) {
  WireWriter out;
  PutPlannedStripes(out, {kLustre, 5, {7, 3}, false});
  WireReader in(out.bytes());
  const PlannedStripes stripes = GetPlannedStripes(in);
  EXPECT_TRUE(in.done());
  EXPECT_EQ(stripes.striping.stripe_bytes, kMiB);
  EXPECT_EQ(stripes.nodes, 5);
  EXPECT_EQ(stripes.by_nodes, (StripeUse{7, 3}));
  EXPECT_FALSE(stripes.is_exact);
}

}  // namespace
}  // namespace belay::transfer_choice_test
