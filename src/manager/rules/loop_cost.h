// What a save costs the loop that makes it: the call, and slower steps after
// it, whose caches, pages and cores it has used. Seconds.

#ifndef BELAY_MANAGER_RULES_LOOP_COST_H_
#define BELAY_MANAGER_RULES_LOOP_COST_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace belay {

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
// `is_saving`: a save is under way in the background. Local.
void NoteStep(double now, bool is_saving, LoopCost& loop);

// A save begins behind the last step. Local.
void NoteSave(LoopCost& loop);

// The call of that save has taken so long. Local.
void NoteCall(double seconds, LoopCost& loop);

// Forgets the save whose cost is not known, and when the last step ended: the
// time until the next one is not the loop's. Local.
void NotePause(LoopCost& loop);

// What a save costs, by the last few; nothing before it is known. Local.
std::optional<double> CostOfSave(const LoopCost& loop);

}  // namespace belay

#endif  // BELAY_MANAGER_RULES_LOOP_COST_H_
