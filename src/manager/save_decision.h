// Decides whether to save a step: the rules, the interval, and the cost of
// saves.

#ifndef BELAY_MANAGER_SAVE_DECISION_H_
#define BELAY_MANAGER_SAVE_DECISION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/manager/manager_options.h"
#include "belay/manager/save_interval.h"
#include "belay/status.h"

namespace belay {

// The cost of a save for the program's loop, in seconds: the call, and slower
// steps after it, because the save has used caches, pages and cores.
struct LoopCost {
  std::optional<double> step_end;  // of the last step
  // Total time and number of steps that no save has slowed down. Older steps
  // have less weight.
  double step_seconds = 0;
  double steps = 0;
  // The save whose cost is being measured.
  bool is_measuring = false;
  double call_seconds = 0;
  int64_t steps_after = 0;
  double slowed_seconds = 0;       // by which these steps took longer
  std::vector<double> costs = {};  // of the last few saves
};

// Notes the end of a step. `now` is the time of a clock that stops while the
// job is suspended. `is_saving` is true if a background save is under way.
void NoteStep(double now, bool is_saving, LoopCost& loop);

// Notes that a save begins.
void NoteSave(LoopCost& loop);

// Notes how long the call of the last save took.
void NoteCall(double seconds, LoopCost& loop);

// Stops measuring, because the loop does not run until the next step.
void NotePause(LoopCost& loop);

// Returns the median cost of the last few saves, or nullopt if it is unknown.
std::optional<double> EstimateCost(const LoopCost& loop);

// Durations of saves and steps of a run, in seconds.
struct TimeUse {
  std::vector<double> saves;  // the last few
  std::vector<double> steps;  // the last few, from ShouldSave to ShouldSave
  std::optional<double> restore = std::nullopt;
  // From EstimateCost, once it is known.
  std::optional<double> cost = std::nullopt;
  bool in_background = false;  // the loop continues during saves
};

// Adds a duration to a list of the last five. If the clock was put back, adds
// 0.
void Remember(double seconds, std::vector<double>& times);

// Returns the median. Requires at least one time.
double FindMedian(std::vector<double> times);

// Returns the duration of a save: the median of the last few saves. If there
// are none, returns the duration of the restore, if there was one.
std::optional<double> EstimateSaveSeconds(const TimeUse& use);

// Returns how many seconds before the time limit the job must stop: the margin,
// 1.5 times the longest save, and twice the longest step, because ranks learn
// of the stop one step later and then finish that step.
double SecondsToStop(const TimeUse& use, double margin);

// Returns why to skip the last save with `left` seconds before the time limit:
// saves of this run took longer. Returns "" if there is enough time.
std::string AgainstLastSave(const TimeUse& use, std::optional<double> left);

// Returns the interval for the cost of saves, or for their duration if the cost
// is unknown. Returns nullopt if both are unknown. The interval is never
// shorter than the duration of a save.
// Errors: those of AdviseInterval.
StatusOr<std::optional<SaveInterval>> IntervalFor(const TimeUse& use,
                                                  const AutoInterval& with);

// A save that the rules asked for, but that failed. The rules treat it as done,
// so that they ask for the next save as usual.
struct MissedSave {
  int64_t step = 0;
  std::optional<int64_t> counter;  // value of step_counter
};

// History of a manager before a save; equal on all ranks.
struct SaveHistory {
  std::vector<int64_t> steps;    // committed, ascending
  std::vector<int64_t> damaged;  // those that cannot be restored, ascending
  // Value of step_counter at the last save or restore.
  std::optional<int64_t> counter;
  std::optional<MissedSave> missed;  // the last one since then
  // The step to which the program has gone back, while newer steps exist.
  std::optional<int64_t> restored;
};

struct SaveRequest {
  std::optional<int64_t> step;     // unset: the default number
  std::optional<int64_t> counter;  // value of step_counter
  int64_t save_counter = 0;        // of the Checkpoint
  bool force = false;
  bool overwrite = false;  // this save may replace a step
  // The last save before the job stops: ignores all rules.
  bool is_last = false;
  // A retry of a missed save: ignores all rules.
  bool makes_up = false;
  double due_in = 0;  // seconds, with auto_interval
};

struct SaveDecision {
  bool save = false;
  int64_t step = 0;
  // True if the step exists, but cannot be restored.
  bool replaces_damaged = false;
  std::string reason;  // why not to save
  // True if the reason is that the step is not after the latest one.
  bool is_behind = false;
};

// Replaces the steps in the history. `steps` must be ascending.
void TakeSteps(std::vector<int64_t> steps, SaveHistory& history);

// Returns the newest step that is not known to be damaged.
std::optional<int64_t> FindLatest(const SaveHistory& history);

// Decides whether to save. Has no side effects, except those of should_save. A
// save that is not forced needs a step after the latest one, and a rule that
// asks for it unless it is a retry or the last save before a stop. A forced
// save needs a step that does not exist, unless it may overwrite or the step is
// damaged. With checkpoint_interval, no value of step_counter is saved twice.
// The default number is the Checkpoint's next number or the number after the
// latest step, whichever is larger, so it never replaces a step. Messages do
// not name the directory.
// Errors: InvalidArgument - a negative step, or rules about steps but no step;
//   AlreadyExists - forced, and the step exists; FailedPrecondition - forced,
//   and the manager is read-only; or the program has gone back, and the step is
//   not after the latest one; OutOfRange - there is no number after the latest
//   step; Internal - should_save threw.
StatusOr<SaveDecision> DecideSave(const ManagerOptions& options,
                                  const SaveHistory& history,
                                  const SaveRequest& request);

}  // namespace belay

#endif  // BELAY_MANAGER_SAVE_DECISION_H_
