// How ranks agree beside each step on stopping and saving.

#ifndef BELAY_MANAGER_MANAGER_STOP_H_
#define BELAY_MANAGER_MANAGER_STOP_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "belay/manager/save_interval.h"
#include "belay/manager/stop_reason.h"
#include "belay/status.h"
#include "manager/save_decision.h"
#include "manager/stop_signals.h"
#include "manager/time_limit.h"
#include "mpi/word_in_flight.h"

namespace belay {

// State of the exchange beside each step.
struct Stopping {
  StopSignals signals;  // of this rank

  // Rank 0 only, by the clock of the options.
  std::unique_ptr<TimeLimit> limit;
  std::optional<double> end_time;
  // Times as WorkedBy.
  std::optional<double> last_call;  // of ShouldSave, or the end of a save
  double resting_since = 0;  // the last save or restore, or the beginning
  LoopCost loop;

  // The exchange under way, and this rank's part in it.
  WordInFlight exchange;
  uint64_t fingerprint = 0;
  Status failure;

  // Equal on all ranks.
  std::optional<StopReason> reason;
  bool is_last_save_owed = false;
  bool is_save_due = false;  // by auto_interval
  bool rules_save = false;   // by should_save
  // Until the next save, only rank 0 knows the time of the restore.
  TimeUse use;
  std::optional<SaveInterval> noted_interval;
};

// The word that ranks exchange beside each step.
struct StopVote {
  // The reason to stop. A signal takes precedence over the time limit; among
  // signals, that of the lowest rank.
  std::optional<StopReason> stop;
  bool save_due = false;     // by auto_interval; rank 0 alone knows
  bool rules_save = false;   // by should_save; the same
  bool failed = false;       // a rank has an error to report
  bool differs = false;      // ranks have other fingerprints
  uint8_t flush = 0;         // bits of a save in the background; "or" of all
  uint16_t fingerprint = 0;  // of what all ranks must pass alike

  bool operator==(const StopVote&) const;
};

// Converts a vote to 64 bits and back. Seconds are rounded to whole ones.
uint64_t PackVote(const StopVote& vote);
StopVote UnpackVote(uint64_t word);

// Merges two votes; commutative.
uint64_t MergeVotes(uint64_t one, uint64_t other);

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_STOP_H_
