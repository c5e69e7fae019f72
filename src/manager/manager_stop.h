// How ranks agree, during each step, on stopping and saving.

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

// State of the exchange that runs during each step.
struct Stopping {
  StopSignals signals;  // of this rank

  // Rank 0 only, according to the clock of the options.
  std::unique_ptr<TimeLimit> limit;
  std::optional<double> end_time;
  // Times as WorkedBy returns them.
  std::optional<double> last_call;  // of ShouldSave, or the end of a save
  double resting_since = 0;  // end of the last save or restore, or the start
  LoopCost loop;

  // The exchange under way, and this rank's part of it.
  WordInFlight exchange;
  uint64_t fingerprint = 0;
  Status failure;

  // Equal on all ranks.
  std::optional<StopReason> reason;
  bool is_last_save_owed = false;
  bool is_save_due = false;  // by auto_interval or for a retry
  bool rules_save = false;   // by should_save
  // Equal except for the time of a restore, which only rank 0 knows until the
  // next save.
  TimeUse use;
  std::optional<SaveInterval> noted_interval;
};

// The word that ranks exchange during each step.
struct StopVote {
  // The reason to stop. A signal takes precedence over the time limit. Among
  // signals, the lowest rank's takes precedence.
  std::optional<StopReason> stop;
  bool save_due = false;     // by auto_interval or for a retry; from rank 0
  bool rules_save = false;   // by should_save; from rank 0
  bool failed = false;       // a rank has an error to report
  bool differs = false;      // ranks have different fingerprints
  uint8_t flush = 0;         // vote on a background save; merged by "or"
  uint16_t fingerprint = 0;  // of the arguments that must be equal

  bool operator==(const StopVote&) const;
};

// Convert a vote to 64 bits and back. Seconds are rounded to integers.
uint64_t PackVote(const StopVote& vote);
StopVote UnpackVote(uint64_t word);

// Merges two votes. Commutative.
uint64_t MergeVotes(uint64_t one, uint64_t other);

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_STOP_H_
