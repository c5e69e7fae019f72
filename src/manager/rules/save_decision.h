// Whether a manager saves: a pure function of its options and of what it has
// saved and restored.

#ifndef BELAY_MANAGER_RULES_SAVE_DECISION_H_
#define BELAY_MANAGER_RULES_SAVE_DECISION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/manager/manager_options.h"
#include "belay/status.h"

namespace belay {

// A save that the rules asked for, but that failed. For the rules it counts as
// made, so that they ask for the next one as if nothing had happened.
struct MissedSave {
  int64_t step = 0;
  std::optional<int64_t> counter;  // what step_counter said
};

// What a manager knows before a save; equal on all ranks.
struct SaveHistory {
  std::vector<int64_t> steps;    // committed, ascending
  std::vector<int64_t> damaged;  // of these, ascending: cannot be restored
  // step_counter at the last save or restore.
  std::optional<int64_t> counter;
  std::optional<MissedSave> missed;  // since then, the last one
  // The step that the program has gone back to, while newer ones are there.
  std::optional<int64_t> restored;
};

struct SaveRequest {
  std::optional<int64_t> step;     // unset: the next number
  std::optional<int64_t> counter;  // what step_counter says
  int64_t save_counter = 0;        // of the Checkpoint
  bool force = false;
  bool overwrite = false;  // this save may replace a step
  // The last one before the job stops: no rule about steps is against it.
  bool is_last = false;
  // It is time to make up for a missed save: no rule is against that.
  bool makes_up = false;
  double due_in = 0;  // seconds, with auto_interval
};

struct SaveDecision {
  bool save = false;
  int64_t step = 0;
  // The step is there, but cannot be restored.
  bool replaces_damaged = false;
  std::string reason;  // why not
  // Why not: the step is not after the latest one.
  bool is_behind = false;
};

// Lets these steps be there, ascending, and no others.
void TakeSteps(std::vector<int64_t> steps, SaveHistory& history);

// The newest step that is not known to be damaged.
std::optional<int64_t> LatestOf(const SaveHistory& history);

// Decides. A save that is not forced needs a step after the latest one and a
// rule that asks for it; a forced one needs a step that is not there. The last
// one before a stop needs no rule, nor does one that makes up for another. With
// checkpoint_interval no value of step_counter is saved twice. The number that
// is taken if the caller gives none is the next one of the Checkpoint, or the
// one after the latest step if that is larger: no step is ever replaced.
// Messages do not say where. Errors: InvalidArgument - a negative step, or
// rules about steps where the
//   caller names none; AlreadyExists - forced, and the step is there;
//   FailedPrecondition - forced, and the manager is read-only; or the program
//   has gone back, and the step lies among the newer ones; OutOfRange -
//   there is no number after the latest step; Internal - should_save threw.
StatusOr<SaveDecision> DecideSave(const ManagerOptions& options,
                                  const SaveHistory& history,
                                  const SaveRequest& request);

}  // namespace belay

#endif  // BELAY_MANAGER_RULES_SAVE_DECISION_H_
