#include "manager/rules/stop_vote.h"

#include <algorithm>
#include <cmath>

namespace belay {
namespace {

// From the lowest bit: 27 bits rank or seconds, 5 bits of a save in the
// background, 8 bits signal, 8 bits flags, 16 bits fingerprint.
constexpr uint64_t kMostValue = (uint64_t{1} << 27) - 1;
constexpr int kFlushShift = 27;
constexpr uint64_t kFlushMask = 31;
constexpr int kSignalShift = 32;
constexpr int kFlagShift = 40;
constexpr int kFingerprintShift = 48;
constexpr uint64_t kTimeLimit = 255;  // in the place of a signal

constexpr uint64_t kSaveDue = 1;
constexpr uint64_t kRulesSave = 2;
constexpr uint64_t kFailed = 4;
constexpr uint64_t kDiffers = 8;

// Whether `one` is to be told rather than `other`.
bool CountsMore(const StopReason& one, const StopReason& other) {
  if ((one.signal != 0) != (other.signal != 0)) return one.signal != 0;
  if (one.signal == 0) return one.seconds_left < other.seconds_left;
  return one.rank != other.rank ? one.rank < other.rank
                                : one.signal < other.signal;
}

}  // namespace

bool StopVote::operator==(const StopVote& other) const {
  return PackVote(*this) == PackVote(other);
}

uint64_t PackVote(const StopVote& vote) {
  uint64_t word = uint64_t{vote.fingerprint} << kFingerprintShift;
  const uint64_t flags =
      (vote.save_due ? kSaveDue : 0) | (vote.rules_save ? kRulesSave : 0) |
      (vote.failed ? kFailed : 0) | (vote.differs ? kDiffers : 0);
  word |= flags << kFlagShift;
  word |= (vote.flush & kFlushMask) << kFlushShift;
  if (!vote.stop) return word;
  if (vote.stop->signal != 0) {
    return word | static_cast<uint64_t>(vote.stop->signal) << kSignalShift |
           (static_cast<uint64_t>(vote.stop->rank) & kMostValue);
  }
  const double seconds =
      std::clamp(vote.stop->seconds_left, 0.0, static_cast<double>(kMostValue));
  return word | kTimeLimit << kSignalShift |
         static_cast<uint64_t>(std::round(seconds));
}

StopVote UnpackVote(uint64_t word) {
  const uint64_t flags = word >> kFlagShift & 0xff;
  const uint64_t signal = word >> kSignalShift & 0xff;
  const uint64_t value = word & kMostValue;
  StopVote vote{
      .save_due = (flags & kSaveDue) != 0,
      .rules_save = (flags & kRulesSave) != 0,
      .failed = (flags & kFailed) != 0,
      .differs = (flags & kDiffers) != 0,
      .flush = static_cast<uint8_t>(word >> kFlushShift & kFlushMask),
      .fingerprint = static_cast<uint16_t>(word >> kFingerprintShift)};
  if (signal == kTimeLimit) {
    vote.stop = StopReason{.seconds_left = static_cast<double>(value)};
  } else if (signal != 0) {
    vote.stop = StopReason{.signal = static_cast<int>(signal),
                           .rank = static_cast<int>(value)};
  }
  return vote;
}

// Where two votes without `differs` meet, each stands for ranks with one
// fingerprint.
uint64_t MergeVotes(uint64_t one, uint64_t other) {
  const StopVote a = UnpackVote(one);
  const StopVote b = UnpackVote(other);
  StopVote both{
      .stop = a.stop,
      .save_due = a.save_due || b.save_due,
      .rules_save = a.rules_save || b.rules_save,
      .failed = a.failed || b.failed,
      .differs = a.differs || b.differs || a.fingerprint != b.fingerprint,
      .flush = static_cast<uint8_t>(a.flush | b.flush),
      .fingerprint = std::min(a.fingerprint, b.fingerprint)};
  if (!a.stop || (b.stop && CountsMore(*b.stop, *a.stop))) both.stop = b.stop;
  return PackVote(both);
}

}  // namespace belay
