// What a manager holds to agree beside each step on stopping and saving.

#ifndef BELAY_MANAGER_STOPPING_H_
#define BELAY_MANAGER_STOPPING_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "belay/manager/save_interval.h"
#include "belay/manager/stop_reason.h"
#include "belay/status.h"
#include "job/stop_signals.h"
#include "job/time_limit.h"
#include "manager/rules/loop_cost.h"
#include "manager/rules/time_use.h"
#include "mpi/word_in_flight.h"

namespace belay {

struct Stopping {
  StopSignals signals;  // of this rank

  // Of rank 0, by the clock of the options.
  std::unique_ptr<TimeLimit> limit;
  std::optional<double> end_time;
  // As of WorkedBy.
  std::optional<double> last_call;  // of ShouldSave, or the end of a save
  double resting_since = 0;  // the last save or restore, or the beginning
  LoopCost loop;

  // The exchange that is under way, and what this rank has told in it.
  WordInFlight exchange;
  uint64_t fingerprint = 0;
  Status failure;

  // Equal on all ranks.
  std::optional<StopReason> reason;
  bool is_last_save_owed = false;
  bool is_save_due = false;  // by auto_interval
  bool rules_save = false;   // by should_save
  // The restore is known to rank 0 alone until the next save.
  TimeUse use;
  std::optional<SaveInterval> noted_interval;
};

}  // namespace belay

#endif  // BELAY_MANAGER_STOPPING_H_
