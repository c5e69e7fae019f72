#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "plan/replica_check.h"

namespace belay::replica_sums_test {
namespace {

const Box kBox = {{0, 4}, {2, 8}};

TEST(ReplicaSumsTest, EqualOnesAreNoDifference) {
  const ReplicaDifferences none = FindDifferences(
      {{"a", kBox, 1, 0}, {"b", kBox, 2, 0}, {"a", kBox, 1, 3}});
  EXPECT_EQ(none.count, 0);
  EXPECT_EQ(none.first, "");
  EXPECT_EQ(FindDifferences({}).count, 0);
}

TEST(ReplicaSumsTest, WhatMostRanksHoldIsNeeded) {
  const Box other = {{2, 4}, {2, 8}};
  const ReplicaDifferences found = FindDifferences({{"b", kBox, 1, 2},
                                                    {"b", kBox, 3, 0},
                                                    {"b", kBox, 1, 3},
                                                    {"b", kBox, 4, 1},
                                                    {"b", other, 9, 0},
                                                    {"c", kBox, 1, 0},
                                                    {"c", kBox, 2, 1}});
  EXPECT_EQ(found.count, 2);
  EXPECT_EQ(found.first,
            "replicas of \"b\", box \"0,2:4,8\", differ (need the values of "
            "ranks 2, 3, found others on ranks 0, 1)");
}

TEST(ReplicaSumsTest, OfAsManyTheLowestRanksAreRight) {
  EXPECT_EQ(FindDifferences({{"n", {}, 7, 1}, {"n", {}, 8, 0}}).first,
            "replicas of \"n\" differ (need the values of rank 0, found others "
            "on rank 1)");
}

TEST(ReplicaSumsTest, ManyRanksAreCounted) {
  std::vector<ReplicaSum> sums;
  for (int32_t rank = 0; rank < 100; ++rank) {
    sums.push_back({"n", {}, rank < 60 ? 1u : 2u, rank});
  }
  EXPECT_EQ(FindDifferences(sums).first,
            "replicas of \"n\" differ (need the values of ranks 0, 1, 2, 3, 4, "
            "5, 6, 7, and 52 more, found others on ranks 60, 61, 62, 63, 64, "
            "65, 66, 67, and 32 more)");
}

TEST(ReplicaSumsTest, EqualBoxesMeetAndTheWorkIsShared) {
  std::set<int32_t> comparers;
  for (int i = 0; i < 200; ++i) {
    const std::string key = absl::StrCat("w", i);
    const int32_t comparer = ChooseComparer({key, kBox, 1, 0}, 8);
    EXPECT_EQ(comparer, ChooseComparer({key, kBox, 2, 5}, 8));
    comparers.insert(comparer);
  }
  EXPECT_EQ(comparers.size(), 8u);
}

TEST(ReplicaSumsTest, SumsComeBackFromBytes) {
  const std::vector<ReplicaSum> sums = {{"a", kBox, 1, 2},
                                        {"n", {}, ~uint64_t{0}, 0}};
  const auto back = Decode<std::vector<ReplicaSum>>(Encode(sums)).value();
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].key, "a");
  EXPECT_EQ(back[0].box, kBox);
  EXPECT_EQ(back[1].sum, ~uint64_t{0});
}

}  // namespace
}  // namespace belay::replica_sums_test
