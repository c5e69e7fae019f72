// The memory that rank 0 needs for what it knows of all ranks, as the
// allocations of this process count it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "core/list_exchange.h"
#include "counted_memory.h"
#include "plan/save_planner.h"

namespace belay {
namespace {

constexpr int kArrays = 1000;

// A thousand arrays, their rows cut over all ranks, and one value everywhere.
RankShards Model(int num_ranks, int rank) {
  const Layout layout =
      Layout::Create(Mesh::Create({{"x", num_ranks}}).value(), {{"x"}, {}})
          .value();
  const Shape shape = {4096, 64};
  RankShards mine;
  for (int i = 0; i < kArrays; ++i) {
    mine.shards.push_back({.key = absl::StrCat("model/layer", i, "/kernel"),
                           .dtype = DType::kBF16,
                           .global_shape = shape,
                           .box = layout.LocalBox(shape, rank).value(),
                           .replica = layout.Replica(rank),
                           .layout = layout.ToString()});
  }
  mine.shards.push_back({.key = "step", .dtype = DType::kI64, .replica = rank});
  return mine;
}

ListsToSend ToTell(int num_ranks, int rank) {
  Description description = Describe(Model(num_ranks, rank), rank, num_ranks);
  return PrepareLists(
      {std::move(description.shared), std::move(description.own)});
}

// What rank 0 keeps and plans with after a first save.
struct Known {
  ListsByFingerprint lists;
  ListedRanks listed;
};

Known HearAll(int num_ranks) {
  const SentLists before;
  std::vector<std::string> announcements, answers;
  for (int rank = 0; rank < num_ranks; ++rank) {
    announcements.push_back(Announce(ToTell(num_ranks, rank), before));
  }
  const std::vector<std::string> asks = AskFor(announcements, before);
  for (int rank = 0; rank < num_ranks; ++rank) {
    answers.push_back(Answer(asks[rank], "", ToTell(num_ranks, rank), before));
  }
  Heard heard =
      Hear(announcements, asks, answers, ToTell(num_ranks, 0), before).value();
  ListedRanks listed = ListRanks(heard).value();
  return {.lists = std::move(heard.lists), .listed = std::move(listed)};
}

TEST(PlannerMemoryTest, WhatIsHeardTakesNoMoreForMoreRanks) {
  int64_t of_eight = 0;
  for (const int num_ranks : {8, 64, 1024}) {
    const int64_t before = counted_memory.live_bytes;
    const Known known = HearAll(num_ranks);
    const int64_t bytes = counted_memory.live_bytes - before;
    if (of_eight == 0) of_eight = bytes;
    std::printf("%d ranks: %.0f bytes per array\n", num_ranks,
                static_cast<double>(bytes) / kArrays);
    EXPECT_LE(bytes, of_eight + of_eight / 50 + 64 * num_ranks);
  }
  EXPECT_LE(of_eight, 450 * kArrays);
}

// A plan has an order for each piece, and boxes and pieces beside them while it
// is made.
TEST(PlannerMemoryTest, PlanningTakesSoMuchForEachPiece) {
  for (const int num_ranks : {64, 256}) {
    const Known known = HearAll(num_ranks);
    const int64_t before = counted_memory.live_bytes;
    counted_memory.most_live_bytes = counted_memory.live_bytes;
    const SavePlan plan = PlanSave(known.listed, {}).value();
    const int64_t pieces = int64_t{num_ranks} * kArrays;
    std::printf(
        "%d ranks: at most %.0f bytes per piece, then %.0f\n", num_ranks,
        static_cast<double>(counted_memory.most_live_bytes - before) / pieces,
        static_cast<double>(counted_memory.live_bytes - before) / pieces);
    EXPECT_LE(counted_memory.most_live_bytes - before, 380 * pieces);
    EXPECT_LE(counted_memory.live_bytes - before, 250 * pieces);
  }
}

}  // namespace
}  // namespace belay
