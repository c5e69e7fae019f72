// What the ranks of a save in the background tell each other: one word each.

#ifndef BELAY_SAVE_BACKGROUND_VOTES_H_
#define BELAY_SAVE_BACKGROUND_VOTES_H_

#include <cstdint>

namespace belay {

// What the ranks of a save in the background tell each other: one word of each,
// merged into one of all.

// How far a rank is.
enum class FlushPhase : uint8_t {
  kWriting = 0,
  kWritten = 1,   // and synced, if that was asked for
  kReadBack = 2,  // and compared
};

struct Vote {
  FlushPhase phase = FlushPhase::kWriting;  // of all ranks: the least
  bool failed = false;                      // any rank
  bool wants_read_back = false;             // rank 0
  bool committed = false;                   // rank 0

  friend bool operator==(const Vote&, const Vote&) = default;
};

// The bits that a vote takes of a word, from bit 0 on. They merge bit by bit
// with "or", so that other bits of the word may go along.
inline constexpr int kVoteBits = 5;

uint64_t ToWord(const Vote& vote);
Vote FromWord(uint64_t word);

}  // namespace belay

#endif  // BELAY_SAVE_BACKGROUND_VOTES_H_
