// What saves and steps of a run take, and what follows from it: when to save
// next, and when to stop before a time limit. Seconds.

#ifndef BELAY_MANAGER_RULES_TIME_USE_H_
#define BELAY_MANAGER_RULES_TIME_USE_H_

#include <optional>
#include <string>
#include <vector>

#include "belay/manager/save_interval.h"
#include "belay/status.h"

namespace belay {

struct TimeUse {
  std::vector<double> saves;  // the last few
  std::vector<double> steps;  // the same: from one ShouldSave to the next
  std::optional<double> restore = std::nullopt;
  // What a save costs the loop (manager/rules/loop_cost.h), once it is known.
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

}  // namespace belay

#endif  // BELAY_MANAGER_RULES_TIME_USE_H_
