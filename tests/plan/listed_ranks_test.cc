// What ranks tell rank 0 of their shards, and what rank 0 makes of it.
#include "plan/listed_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_testing.h"
#include "plan/stored_objects.h"

namespace belay::listed_ranks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Layout RowsOn(int num_ranks) {
  return Layout::Create(Mesh::Create({{"x", num_ranks}, {"y", 2}}).value(),
                        {{"x"}, {}})
      .value();
}

ShardInfo LaidOut(std::string key, const Layout& layout, const Shape& shape,
                  int rank) {
  return {.key = std::move(key),
          .dtype = DType::kF32,
          .global_shape = shape,
          .box = layout.LocalBox(shape, rank).value(),
          .replica = layout.Replica(rank),
          .layout = layout.ToString()};
}

ShardInfo RowsOf(std::string key, const Shape& shape, int rank, int ranks) {
  ShardInfo rows{.key = std::move(key),
                 .dtype = DType::kF32,
                 .global_shape = shape,
                 .box = WholeBox(shape)};
  rows.box.offset[0] = FirstOfEven(shape[0], rank, ranks);
  rows.box.shape[0] =
      FirstOfEven(shape[0], rank + 1, ranks) - rows.box.offset[0];
  return rows;
}

ShardInfo Everywhere(std::string key, int rank) {
  return {.key = std::move(key),
          .dtype = DType::kI64,
          .global_shape = {3},
          .box = WholeBox({3}),
          .replica = rank};
}

TEST(DescriptionTest, WhatIsHeldAlikeIsToldAlike) {
  const Layout layout = RowsOn(3);
  const auto told = [&](int rank) {
    const ShardInfo text{.key = "text",
                         .dtype = DType::kString,
                         .replica = rank,
                         .string_bytes = 7};
    const RankShards mine{.shards = {LaidOut("w", layout, {7, 4}, rank),
                                     Everywhere("e", rank), text},
                          .values = {{"value", "handler", {"part"}}}};
    return Describe(mine, rank, 6);
  };
  EXPECT_THAT(told(0).shared, SizeIs(4));
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(told(rank).shared, told(0).shared) << rank;
    EXPECT_THAT(told(rank).own, IsEmpty()) << rank;
  }
}

TEST(DescriptionTest, EvenRowsAreToldOnce) {
  constexpr int kRanks = 6;
  const auto told = [&](int rank) {
    return Describe({.shards = {RowsOf("w", {13, 4}, rank, kRanks),
                                RowsOf("few", {4}, rank, kRanks)}},
                    rank, kRanks);
  };
  const ShardList list = DecodeList(told(0).shared).value();
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(told(rank).shared, told(0).shared) << rank;
    EXPECT_THAT(told(rank).own, IsEmpty()) << rank;
    EXPECT_EQ(OnRank(list.shards[0], rank), RowsOf("w", {13, 4}, rank, kRanks));
    EXPECT_EQ(BoxOnRank(list.shards[1], rank),
              RowsOf("few", {4}, rank, kRanks).box);
  }
  std::vector<ShardInfo> odd(3, RowsOf("w", {13, 4}, 1, kRanks));
  odd[0].replica = 1;
  odd[1].box.shape[0] += 1;
  odd[2].box.shape[1] = 3;
  for (const ShardInfo& shard : odd) {
    const Description own = Describe({.shards = {shard}}, 1, kRanks);
    ASSERT_THAT(own.own, SizeIs(1));
    EXPECT_EQ(DecodeList(own.own)->shards[0].info, shard);
  }
}

// A layout that a caller has made up does not say where a shard lies.
TEST(DescriptionTest, WhatDoesNotFollowIsToldWithItsBox) {
  const Layout layout = RowsOn(3);
  const ShardInfo good = LaidOut("w", layout, {7, 4}, 1);
  EXPECT_THAT(Describe({.shards = {good}}, 1, 6).own, IsEmpty());
  std::vector<ShardInfo> odd(6, good);
  odd[0].box.offset[0] = 1;
  odd[1].replica = 0;
  odd[2].layout = "[x,-] on x=3";
  odd[3].layout = "no layout";
  odd[4].layout = "[x] on x=3,y=2";
  odd[5].box = {{1, 2}, {3}};  // for the planner to refuse
  for (const ShardInfo& shard : odd) {
    const Description told = Describe({.shards = {shard}}, 1, 6);
    EXPECT_THAT(told.shared, IsEmpty());
    ASSERT_THAT(told.own, SizeIs(1));
    EXPECT_EQ(DecodeList(told.own)->shards[0].info, shard);
  }
  EXPECT_THAT(Describe({.shards = {good}}, 2, 6).own, SizeIs(1))
      << "of another rank";
}

TEST(DescriptionTest, BadEntriesAreRefused) {
  const Status refused = absl::InternalError("entry 0 of 1 describes nothing");
  Entries shared = Describe({.shards = {Everywhere("e", 1)}}, 1, 6).shared;
  EXPECT_EQ(DecodeList({"\x04"}).status(), refused);
  Entries rows = Describe({.shards = {RowsOf("w", {8}, 0, 2)}}, 0, 2).shared;
  EXPECT_TRUE(DecodeList(rows).ok());
  for (const char byte : {'\0', '\xff'}) {  // of no ranks, of -1
    rows[0].replace(rows[0].size() - 4, 4, 4, byte);
    EXPECT_EQ(DecodeList(rows).status(), refused);
  }
  EXPECT_EQ(DecodeList({shared[0] + "x"}).status(), refused);
  shared[0].pop_back();
  EXPECT_EQ(DecodeList(shared).status(), refused);
}

TEST(ListedRanksTest, RanksGetTheirShardsBackInOrder) {
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    const auto num_ranks = static_cast<int>(Uniform(1, 9, random));
    std::vector<RankShards> ranks =
        RandomCut(RandomArrays(random), num_ranks, random);
    const Layout layout =
        RandomLayout(RandomMesh(num_ranks, random), 2, random);
    for (int rank = 0; rank < num_ranks; ++rank) {
      std::vector<ShardInfo>& shards = ranks[rank].shards;
      shards.push_back(LaidOut("laid out", layout, {5, 8}, rank));
      if (rank % 3 == 0) shards.push_back(Everywhere("some", rank));
      shards.push_back(RowsOf("rows", {7, 2}, rank, num_ranks));
      std::shuffle(shards.begin(), shards.end(), random);
      ranks[rank].values = {{"v" + std::to_string(rank), "t", {}}};
    }
    const ListedRanks listed = ToListed(ranks);
    for (int rank = 0; rank < num_ranks; ++rank) {
      const RankShards back = GetRankShards(listed, rank);
      EXPECT_EQ(back.node, ranks[rank].node);
      EXPECT_EQ(back.shards, ranks[rank].shards);
      EXPECT_EQ(back.values, ranks[rank].values);
    }
    // Each shard is seen once, with its place.
    size_t seen = 0;
    std::string last;
    EXPECT_EQ(ForEachKey(listed,
                         [&](const std::vector<HeldShard>& held) {
                           EXPECT_LE(last, held[0].info->key);
                           last = held[0].info->key;
                           for (const HeldShard& shard : held) {
                             EXPECT_EQ(*shard.info,
                                       ranks[shard.rank].shards[shard.shard]);
                             EXPECT_EQ(shard.info->key, last);
                             ++seen;
                           }
                           return absl::OkStatus();
                         }),
              absl::OkStatus());
    size_t need = 0;
    for (const RankShards& rank : ranks) need += rank.shards.size();
    EXPECT_EQ(seen, need);
  }
}

TEST(ListedRanksTest, TheFirstErrorEndsIt) {
  std::vector<RankShards> ranks(2);
  ranks[1].shards = {Everywhere("b", 1), Everywhere("a", 1)};
  std::vector<std::string> seen;
  const Status error = absl::InvalidArgumentError("enough");
  EXPECT_EQ(ForEachKey(ToListed(ranks),
                       [&](const std::vector<HeldShard>& held) {
                         seen.push_back(held[0].info->key);
                         return error;
                       }),
            error);
  EXPECT_THAT(seen, ElementsAre("a"));
}

}  // namespace
}  // namespace belay::listed_ranks_test
