#include "async/vote.h"

namespace belay {
namespace {

// A phase is told by what is not yet done, so that "or" finds the least.
enum Bits : uint64_t {
  kNotWritten = 1,
  kNotReadBack = 2,
  kFailed = 4,
  kWantsReadBack = 8,
  kCommitted = 16,
};

}  // namespace

uint64_t ToWord(const Vote& vote) {
  uint64_t word = 0;
  if (vote.phase < FlushPhase::kWritten) word |= kNotWritten;
  if (vote.phase < FlushPhase::kReadBack) word |= kNotReadBack;
  if (vote.failed) word |= kFailed;
  if (vote.wants_read_back) word |= kWantsReadBack;
  if (vote.committed) word |= kCommitted;
  return word;
}

Vote FromWord(uint64_t word) {
  Vote vote;
  if ((word & kNotWritten) == 0) vote.phase = FlushPhase::kWritten;
  if ((word & (kNotWritten | kNotReadBack)) == 0) {
    vote.phase = FlushPhase::kReadBack;
  }
  vote.failed = (word & kFailed) != 0;
  vote.wants_read_back = (word & kWantsReadBack) != 0;
  vote.committed = (word & kCommitted) != 0;
  return vote;
}

}  // namespace belay
