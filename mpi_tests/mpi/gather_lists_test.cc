// Counts the bytes that ranks send to rank 0 before it plans a save.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "pipeline/listing.h"
#include "sent_bytes.h"
#include "values.h"

namespace belay::gather_lists_test {
namespace {

using testing::SentAtMost;

class TellTogetherTest : public testing::CheckpointTest {
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

  // Tells rank 0; returns what this rank has sent beside 64 bytes, and of rank
  // 0 3 for each rank. Collective.
  int64_t Tell(const RankShards& mine) {
    CommContext context{comm_, Deadline(comm_, 60, "describe")};
    ListedRanks listed;
    const auto answer =
        [&](const ListedRanks& heard) -> StatusOr<RootMessages> {
      listed = heard;
      return RootMessages();
    };
    const Status status =
        GatherDescriptions(context, mine, sent_lists_, answer).status();
    EXPECT_EQ(status, absl::OkStatus());
    ExpectOnRoot(mine, listed);
    return context.agreement_bytes - 64 - (rank_ == 0 ? 3 * size_ : 0);
  }

  SentLists sent_lists_;

 private:
  // Rank 0 has what `mine` is on every rank. Collective.
  void ExpectOnRoot(const RankShards& mine, const ListedRanks& listed) {
    CommContext context{comm_, Deadline(comm_, 60, "check")};
    WireWriter out;
    for (const ShardInfo& shard : mine.shards) {
      out.PutText(shard.key);
      out.PutBox(shard.box);
    }
    const auto needed = testing::Ok(Gather(context, out.bytes()));
    EXPECT_EQ(listed.ranks.size(), needed.size());
    for (size_t rank = 0; rank < needed.size(); ++rank) {
      WireWriter found;
      const RankShards heard = GetRankShards(listed, static_cast<int>(rank));
      EXPECT_EQ(heard.node, rank / 2);
      for (const ShardInfo& shard : heard.shards) {
        found.PutText(shard.key);
        found.PutBox(shard.box);
      }
      EXPECT_EQ(found.bytes(), needed[rank]) << "of rank " << rank;
    }
  }
};

TEST_F(TellTogetherTest, TheSameStateTravelsOnce) {
  const RankShards model = Model(1000);
  const int64_t first = Tell(model);
  EXPECT_GE(first, rank_ == 0 ? 1000 * 30 : 0);
  EXPECT_LE(first, rank_ == 0 ? 1000 * 100 : 50) << "the node at most";
  EXPECT_EQ(Tell(model), 0);
}

TEST_F(TellTogetherTest, OneOfAThousandChanges) {
  const RankShards model = Model(1000);
  RankShards other = model;
  other.shards[600].dtype = DType::kF64;
  Tell(model);
  for (int changing = 0; changing < size_; ++changing) {
    EXPECT_THAT(Tell(rank_ == changing ? other : model),
                SentAtMost(rank_ == changing ? 200 : 0));
    EXPECT_THAT(Tell(model), SentAtMost(size_ == 1 ? 200 : 0))
        << "rank 0 knows it of others";
  }
  EXPECT_THAT(Tell(other), SentAtMost(rank_ == 0 ? 200 : 0)) << "on all ranks";
}

// A rank that does not know what it told is told what rank 0 has.
TEST_F(TellTogetherTest, ARankThatHasLostWhatItToldIsNoticed) {
  const RankShards model = Model(1000);
  Tell(model);
  for (int lost = 0; lost < size_; ++lost) {
    SCOPED_TRACE(absl::StrCat("rank ", lost));
    if (rank_ == lost) sent_lists_ = {};
    RankShards other = model;
    if (rank_ == lost) other.shards[lost].dtype = DType::kF64;
    const int64_t sent = Tell(other);
    if (rank_ != 0) {
      if (lost == 0) {
        EXPECT_LE(sent, 300) << "somebody has to tell it";
      } else {
        EXPECT_THAT(sent, SentAtMost(rank_ == lost ? 300 : 0));
      }
    } else if (lost == 0) {
      EXPECT_GE(sent, 1000 * 30) << "it knows nothing";
    } else {
      EXPECT_EQ(sent, 1000 * 16) << "what the other compares with";
    }
    Tell(model);
  }
}

}  // namespace
}  // namespace belay::gather_lists_test
