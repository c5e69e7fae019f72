// Decides whether to save a step: rules, interval, and cost of saves.

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

// The cost of a save for the loop: the call, and slower steps after it, because
// the save has used caches, pages and cores. Seconds.
struct LoopCost {
  std::optional<double> step_end;  // of the last step
  // Steps that no save has slowed down; older ones have less weight.
  double step_seconds = 0;
  double steps = 0;
  // The save whose cost is being measured.
  bool is_measuring = false;
  double call_seconds = 0;
  int64_t steps_after = 0;
  double slowed_seconds = 0;       // by which these took longer than others
  std::vector<double> costs = {};  // of the last few saves
};

// Notes the end of a step, by a clock that stops while the job is suspended.
// `is_saving`: a save is under way in the background.
void NoteStep(double now, bool is_saving, LoopCost& loop);

// Notes that a save begins after the last step.
void NoteSave(LoopCost& loop);

// Notes how long the call of that save took.
void NoteCall(double seconds, LoopCost& loop);

// Stops measuring: the time until the next step is not the loop's.
void NotePause(LoopCost& loop);

// Returns the cost of a save by the last few; nothing if unknown.
std::optional<double> EstimateCost(const LoopCost& loop);

// Durations of saves and steps of a run, in seconds.
struct TimeUse {
  std::vector<double> saves;  // the last few
  std::vector<double> steps;  // the last few, from ShouldSave to ShouldSave
  std::optional<double> restore = std::nullopt;
  // From EstimateCost, once it is known.
  std::optional<double> cost = std::nullopt;
  bool in_background = false;  // the loop goes on during saves
};

// Adds a time to the last five. A clock that was put back yields 0.
void Remember(double seconds, std::vector<double>& times);

// Returns the median. Requires at least one time.
double FindMedian(std::vector<double> times);

// Returns the duration of a save: the median of the last few, else that of the
// restore, if there was one.
std::optional<double> EstimateSaveSeconds(const TimeUse& use);

// Returns how long before the time limit the job must stop: the margin, 1.5
// times the longest save, and two of the longest steps, because ranks learn of
// the stop one step later and then finish that step.
double SecondsToStop(const TimeUse& use, double margin);

// Returns why to leave out the last save with `left` seconds before the time
// limit: saves of this run took longer. "" if there is enough time.
std::string AgainstLastSave(const TimeUse& use, std::optional<double> left);

// Returns the interval for the cost of saves, or for their duration while the
// cost is unknown; nothing if both are. Never shorter than the duration of a
// save.
// Errors: those of AdviseInterval.
StatusOr<std::optional<SaveInterval>> IntervalFor(const TimeUse& use,
                                                  const AutoInterval& with);

// A save that the rules asked for, but that failed. For the rules it counts as
// made, so that they ask for the next one as usual.
struct MissedSave {
  int64_t step = 0;
  std::optional<int64_t> counter;  // value of step_counter
};

// History of a manager before a save; equal on all ranks.
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
  std::optional<int64_t> counter;  // value of step_counter
  int64_t save_counter = 0;        // of the Checkpoint
  bool force = false;
  bool overwrite = false;  // this save may replace a step
  // The last one before the job stops: ignores rules about steps.
  bool is_last = false;
  // A retry of a missed save: ignores all rules.
  bool makes_up = false;
  double due_in = 0;  // seconds, with auto_interval
};

struct SaveDecision {
  bool save = false;
  int64_t step = 0;
  // The step exists, but cannot be restored.
  bool replaces_damaged = false;
  std::string reason;  // why not
  // The reason is that the step is not after the latest one.
  bool is_behind = false;
};

// Replaces the steps, which ascend.
void TakeSteps(std::vector<int64_t> steps, SaveHistory& history);

// Returns the newest step that is not known to be damaged.
std::optional<int64_t> FindLatest(const SaveHistory& history);

// Decides whether to save: a pure function. A save that is not forced needs a
// step after the latest one and a rule that asks for it, unless it is a retry
// or the last one before a stop. A forced one needs a step that does not exist.
// With checkpoint_interval no value of step_counter is saved twice. The default
// number is the next one of the Checkpoint or the one after the latest step,
// whichever is larger: no step is ever replaced. Messages do not name the
// directory.
// Errors: InvalidArgument - a negative step, or rules about steps
// but no step;
//   AlreadyExists - forced, and the step is there;
//   FailedPrecondition - forced, and the manager is read-only; or the program
//   has gone back, and the step lies among the newer ones; OutOfRange -
//   there is no number after the latest step; Internal - should_save threw.
StatusOr<SaveDecision> DecideSave(const ManagerOptions& options,
                                  const SaveHistory& history,
                                  const SaveRequest& request);

}  // namespace belay

#endif  // BELAY_MANAGER_SAVE_DECISION_H_
