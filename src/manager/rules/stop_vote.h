// What ranks tell each other beside each step, in one word.

#ifndef BELAY_MANAGER_RULES_STOP_VOTE_H_
#define BELAY_MANAGER_RULES_STOP_VOTE_H_

#include <cstdint>
#include <optional>

#include "belay/manager/stop_reason.h"

namespace belay {

struct StopVote {
  // Why to stop. A signal counts more than the time limit, and of signals that
  // of the lowest rank.
  std::optional<StopReason> stop;
  bool save_due = false;     // by auto_interval; rank 0 alone knows
  bool rules_save = false;   // by should_save; the same
  bool failed = false;       // a rank has an error to tell
  bool differs = false;      // ranks have other fingerprints
  uint8_t flush = 0;         // bits of a save in the background; "or" of all
  uint16_t fingerprint = 0;  // of what all ranks must pass alike

  bool operator==(const StopVote&) const;
};

// A vote in 64 bits, and back. Seconds are rounded to whole ones.
uint64_t PackVote(const StopVote& vote);
StopVote UnpackVote(uint64_t word);

// The vote of the ranks of both. The order does not matter.
uint64_t MergeVotes(uint64_t one, uint64_t other);

}  // namespace belay

#endif  // BELAY_MANAGER_RULES_STOP_VOTE_H_
