// Whether a step is to be saved: the rules, the interval, and what a save
// costs.

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

// What a save costs the loop that makes it: the call, and slower steps after
// it, whose caches, pages and cores it has used. Seconds.

struct LoopCost {
  std::optional<double> step_end;  // of the last step
  // Of the steps that no save has made slower, older ones with less weight.
  double step_seconds = 0;
  double steps = 0;
  // The save whose cost is not known yet.
  bool is_measuring = false;
  double call_seconds = 0;
  int64_t steps_after = 0;
  double slowed_seconds = 0;       // that these took longer than others
  std::vector<double> costs = {};  // of the last few saves
};

// A step has ended, by a clock that only runs while the program does.
// `is_saving`: a save is under way in the background.
void NoteStep(double now, bool is_saving, LoopCost& loop);

// A save begins behind the last step.
void NoteSave(LoopCost& loop);

// The call of that save has taken so long.
void NoteCall(double seconds, LoopCost& loop);

// Forgets the save whose cost is not known, and when the last step ended: the
// time until the next one is not the loop's.
void NotePause(LoopCost& loop);

// What a save costs, by the last few; nothing before it is known.
std::optional<double> CostOfSave(const LoopCost& loop);

// What saves and steps of a run take, and what follows from it: when to save
// next, and when to stop before a time limit. Seconds.

struct TimeUse {
  std::vector<double> saves;  // the last few
  std::vector<double> steps;  // the same: from one ShouldSave to the next
  std::optional<double> restore = std::nullopt;
  // What a save costs the loop (manager/save_decision.h), once it is known.
  std::optional<double> cost = std::nullopt;
  bool in_background = false;  // the loop goes on during saves
};

// Adds a time to the last few, of which five are kept. A clock that was put
// back gives 0.
void Remember(double seconds, std::vector<double>& times);

// Returns the median; there is at least one time.
double MedianOf(std::vector<double> times);

// What a save takes: the median of the last few; before the first one what the
// restore took, if there was one.
std::optional<double> SecondsOfSave(const TimeUse& use);

// How long before the time limit the job is told to stop: the margin, half as
// much again as the longest save, and two of the longest steps, because the
// ranks learn of it one step later and then finish that step.
double SecondsToStop(const TimeUse& use, double margin);

// Why the last save is left out with `left` seconds before the time limit:
// saves of this run took longer. "" if there is nothing against it.
std::string AgainstLastSave(const TimeUse& use, std::optional<double> left);

// The interval for what saves cost, or what they take as long as that is not
// known; nothing before anything is known. No shorter than what a save takes.
// Errors: those of AdviseInterval.
StatusOr<std::optional<SaveInterval>> IntervalFor(const TimeUse& use,
                                                  const AutoInterval& with);

// Whether a manager saves: a pure function of its options and of what it has
// saved and restored.

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

#endif  // BELAY_MANAGER_SAVE_DECISION_H_
