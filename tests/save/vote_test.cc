#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "save/background_save.h"

namespace belay::vote_test {
namespace {

std::vector<Vote> AllVotes() {
  std::vector<Vote> votes;
  for (int bits = 0; bits < 24; ++bits) {
    votes.push_back({.phase = static_cast<FlushPhase>(bits / 8),
                     .failed = (bits & 1) != 0,
                     .wants_read_back = (bits & 2) != 0,
                     .committed = (bits & 4) != 0});
  }
  return votes;
}

TEST(Vote, AWordHoldsIt) {
  for (const Vote& vote : AllVotes()) {
    const uint64_t word = ToWord(vote);
    EXPECT_EQ(FromWord(word), vote);
    EXPECT_EQ(word >> kVoteBits, 0u);
  }
}

TEST(Vote, OfTwoRanksTheLeastPhaseAndAnyFlag) {
  for (const Vote& a : AllVotes()) {
    for (const Vote& b : AllVotes()) {
      const Vote both = FromWord(ToWord(a) | ToWord(b));
      EXPECT_EQ(both.phase, std::min(a.phase, b.phase));
      EXPECT_EQ(both.failed, a.failed || b.failed);
      EXPECT_EQ(both.wants_read_back, a.wants_read_back || b.wants_read_back);
      EXPECT_EQ(both.committed, a.committed || b.committed);
    }
  }
}

TEST(Vote, OtherBitsGoAlong) {
  const uint64_t others = ~uint64_t{0} << kVoteBits;
  for (const Vote& vote : AllVotes()) {
    EXPECT_EQ(FromWord(ToWord(vote) | others), vote);
  }
}

}  // namespace
}  // namespace belay::vote_test
