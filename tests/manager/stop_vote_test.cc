#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "manager/manager_stop.h"

namespace belay::stop_vote_test {
namespace {

// As a reduction may do it: in any order, and in any tree.
StopVote MergeAll(std::vector<StopVote> votes, std::mt19937& random) {
  std::vector<uint64_t> words;
  for (const StopVote& vote : votes) words.push_back(PackVote(vote));
  std::shuffle(words.begin(), words.end(), random);
  while (words.size() > 1) {
    const size_t at = random() % (words.size() - 1);
    words[at] = MergeVotes(words[at], words[at + 1]);
    words.erase(words.begin() + static_cast<int64_t>(at) + 1);
  }
  return UnpackVote(words[0]);
}

TEST(StopVoteTest, GoesThroughAWord) {
  for (const StopVote& vote :
       {StopVote{}, StopVote{.stop = StopReason{.signal = 10, .rank = 70000}},
        StopVote{.stop = StopReason{.signal = 64, .rank = 0x7ffffff},
        .save_due = true,
        .fingerprint = 0xffff},
        StopVote{.stop = StopReason{.seconds_left = 95},
        .failed = true,
        .flush = 31},
        StopVote{.flush = 9},
        StopVote{.rules_save = true, .differs = true, .fingerprint = 1}}) {
    const StopVote back = UnpackVote(PackVote(vote));
    EXPECT_EQ(back, vote);
    ASSERT_EQ(back.stop.has_value(), vote.stop.has_value());
    if (!vote.stop) continue;
    EXPECT_EQ(back.stop->ToString(), vote.stop->ToString());
  }
  EXPECT_EQ(UnpackVote(PackVote({.stop = StopReason{.seconds_left = -5}}))
                .stop->seconds_left,
            0);
  EXPECT_EQ(UnpackVote(PackVote({.stop = StopReason{.seconds_left = 1e300}}))
                .stop->seconds_left,
            134217727.0);
}

TEST(StopVoteTest, AllRanksFindTheSame) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const int ranks = 1 + static_cast<int>(random() % 40);
    std::vector<StopVote> votes;
    int lowest = -1;
    bool failed = false;
    uint8_t flush = 0;
    const bool differ = trial % 3 == 0 && ranks > 1;
    for (int rank = 0; rank < ranks; ++rank) {
      StopVote vote{.failed = random() % 20 == 0,
                    .flush = static_cast<uint8_t>(1 << rank % 5),
                    .fingerprint = 7};
      flush |= vote.flush;
      if (random() % 8 == 0) {
        vote.stop = StopReason{.signal = 10 + rank % 3, .rank = rank};
        if (lowest < 0) lowest = rank;
      } else if (rank == 0) {
        vote.stop = StopReason{.seconds_left = 30};
        vote.save_due = true;
      }
      failed = failed || vote.failed;
      votes.push_back(vote);
    }
    if (differ) votes[random() % ranks].fingerprint = 1 + random() % 2 * 7;
    const StopVote all = MergeAll(votes, random);
    EXPECT_EQ(all.failed, failed);
    EXPECT_EQ(all.flush, flush);
    EXPECT_EQ(all.differs, differ);
    EXPECT_EQ(all.save_due, votes[0].save_due);
    if (lowest >= 0) {
      EXPECT_EQ(all.stop->rank, lowest);
      EXPECT_EQ(all.stop->signal, 10 + lowest % 3);
    } else {
      EXPECT_EQ(all.stop->ToString(), "the time limit in 30 s");
    }
  }
}

TEST(StopReasonTest, Text) {
  EXPECT_EQ((StopReason{.signal = 10, .rank = 2}).ToString(),
            "SIGUSR1 on rank 2");
  EXPECT_EQ((StopReason{.seconds_left = 95}).ToString(),
            "the time limit in 95 s");
}

}  // namespace
}  // namespace belay::stop_vote_test
