#include "manager/rules/loop_cost.h"

#include <algorithm>

#include "manager/rules/time_use.h"

namespace belay {
namespace {

// So many steps tell what a save has made slower.
constexpr int64_t kStepsAfter = 8;
// The first of them are slower.
constexpr int64_t kSlowedSteps = 3;
constexpr double kRememberedSteps = 500;

void AddStep(double seconds, LoopCost& loop) {
  loop.step_seconds += std::max(seconds, 0.0);
  loop.steps += 1;
  if (loop.steps <= kRememberedSteps) return;
  loop.step_seconds /= 2;
  loop.steps /= 2;
}

// The cost of the last save is what its time and the steps after it took beyond
// what such steps take.
void Settle(double now, LoopCost& loop) {
  if (loop.before_save && loop.steps_after > 0 && loop.steps > 0) {
    const double usual =
        loop.step_seconds / loop.steps * static_cast<double>(loop.steps_after);
    const double cost = now - *loop.before_save - usual;
    Remember(std::max(cost, loop.call_seconds), loop.costs);
  }
  loop.before_save.reset();
}

}  // namespace

void NoteStep(double now, bool is_saving, LoopCost& loop) {
  if (loop.before_save) {
    ++loop.steps_after;
    // So that a loop that saves often is not measured by its first steps.
    if (!is_saving && loop.steps_after > kSlowedSteps) {
      AddStep(now - *loop.step_end, loop);
    }
    if (!is_saving && loop.steps_after >= kStepsAfter) Settle(now, loop);
  } else if (loop.step_end) {
    AddStep(now - *loop.step_end, loop);
  }
  loop.step_end = now;
}

void NoteSave(LoopCost& loop) {
  if (loop.step_end) Settle(*loop.step_end, loop);
  loop.before_save = loop.step_end;
  loop.call_seconds = 0;
  loop.steps_after = 0;
}

void NoteCall(double seconds, LoopCost& loop) {
  loop.call_seconds = std::max(seconds, 0.0);
}

void NotePause(LoopCost& loop) {
  loop.before_save.reset();
  loop.step_end.reset();
}

std::optional<double> CostOfSave(const LoopCost& loop) {
  if (loop.costs.empty()) return std::nullopt;
  return MedianOf(loop.costs);
}

}  // namespace belay
