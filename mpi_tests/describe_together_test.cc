// What travels to rank 0 before a save is planned, counted over real messages.
#include "checkpoint/describe_together.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "values.h"

namespace belay {
namespace {

class DescribeTogetherTest : public testing::CheckpointTest {
 protected:
  // Arrays that are laid out over all ranks.
  RankShards Model(int count) const {
    const Layout layout =
        *Layout::Create(*Mesh::Create({{"x", size_}}), {{"x"}});
    RankShards mine{.node = rank_ / 2};
    for (int i = 0; i < count; ++i) {
      mine.shards.push_back({.key = absl::StrCat("layer", i),
                             .dtype = DType::kF32,
                             .global_shape = {100},
                             .box = *layout.LocalBox({100}, rank_),
                             .replica = layout.Replica(rank_),
                             .layout = layout.ToString()});
    }
    return mine;
  }

  // Tells rank 0; returns what this rank has sent of its lists. Collective.
  int64_t Tell(const RankShards& mine) {
    Team team{comm_, Deadline(comm_, 60, "describe")};
    const StatusOr<ListedRanks> listed = DescribeTogether(team, mine, told_);
    EXPECT_TRUE(listed.ok()) << listed.status();
    const int64_t asks = rank_ == 0 ? 2 * size_ : 0;
    const int64_t sent = team.agreement_bytes - 36 - asks;
    ExpectOnRoot(mine, *listed);
    return sent;
  }

  Told told_;

 private:
  // Rank 0 has what `mine` is on every rank. Collective.
  void ExpectOnRoot(const RankShards& mine, const ListedRanks& listed) {
    Team team{comm_, Deadline(comm_, 60, "check")};
    WireWriter out;
    for (const ShardInfo& shard : mine.shards) {
      out.PutText(shard.key);
      out.PutBox(shard.box);
    }
    const auto needed = testing::Ok(Gather(team, out.bytes()));
    EXPECT_EQ(listed.ranks.size(), needed.size());
    for (size_t rank = 0; rank < needed.size(); ++rank) {
      WireWriter found;
      for (const ShardInfo& shard :
           ShardsOf(listed, static_cast<int>(rank)).shards) {
        found.PutText(shard.key);
        found.PutBox(shard.box);
      }
      EXPECT_EQ(found.bytes(), needed[rank]) << "of rank " << rank;
      EXPECT_EQ(listed.ranks[rank].node, rank / 2);
    }
  }
};

TEST_F(DescribeTogetherTest, TheSameStateTravelsOnce) {
  RankShards model = Model(1000);
  const int64_t first = Tell(model);
  EXPECT_GE(first, rank_ == 0 ? 1000 * 30 : 0);
  EXPECT_LE(first, rank_ == 0 ? 1000 * 100 : 0);
  EXPECT_EQ(Tell(model), 0);
}

TEST_F(DescribeTogetherTest, OneOfAThousandChanges) {
  const RankShards model = Model(1000);
  Tell(model);
  for (int changing = 0; changing < size_; ++changing) {
    RankShards other = model;
    if (rank_ == changing) other.shards[600].dtype = DType::kF64;
    EXPECT_LE(Tell(other), rank_ == changing ? 200 : 0);
    EXPECT_LE(Tell(model), rank_ == 0 ? 200 : size_ == 1 ? 200 : 100);
  }
  RankShards other = model;
  other.shards[600].dtype = DType::kF64;
  EXPECT_LE(Tell(other), rank_ == 0 ? 200 : 0) << "on all ranks";
}

TEST_F(DescribeTogetherTest, ARankThatHasLostWhatItToldIsNoticed) {
  const RankShards model = Model(1000);
  Tell(model);
  for (int lost = 0; lost < size_; ++lost) {
    if (rank_ == lost) told_ = {};
    RankShards other = model;
    if (rank_ == lost) other.shards[lost].dtype = DType::kF64;
    const int64_t sent = Tell(other);
    EXPECT_GE(sent, rank_ == lost ? 1000 * 30 : 0);
    // If it is not rank 0 that has lost it, all others are known there.
    EXPECT_LE(sent, rank_ == lost || lost == 0 ? 1000 * 100 : 0);
    Tell(model);
  }
}

}  // namespace
}  // namespace belay
