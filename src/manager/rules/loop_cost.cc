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

// What a step after a save took longer than others. A step that takes many
// times as long did something else, such as a validation.
double SlowedSeconds(double seconds, const LoopCost& loop) {
  constexpr double kMostOfStep = 4;
  const double usual = loop.step_seconds / loop.steps;
  return std::min(seconds - usual,
                  std::max(kMostOfStep * usual, loop.call_seconds));
}

void Settle(LoopCost& loop) {
  if (loop.is_measuring && loop.steps_after > 0 && loop.steps > 0) {
    Remember(loop.call_seconds + std::max(loop.slowed_seconds, 0.0),
             loop.costs);
  }
  loop.is_measuring = false;
}

// One more step after the save.
void NoteStepAfter(double seconds, bool is_saving, LoopCost& loop) {
  if (++loop.steps_after == 1) seconds -= loop.call_seconds;
  if (loop.steps > 0) loop.slowed_seconds += SlowedSeconds(seconds, loop);
  // So that a loop that saves often is not measured by its first steps.
  if (!is_saving && loop.steps_after > kSlowedSteps) AddStep(seconds, loop);
  if (!is_saving && loop.steps_after >= kStepsAfter) Settle(loop);
}

}  // namespace

void NoteStep(double now, bool is_saving, LoopCost& loop) {
  if (loop.step_end) {
    const double seconds = now - *loop.step_end;
    if (loop.is_measuring) {
      NoteStepAfter(seconds, is_saving, loop);
    } else {
      AddStep(seconds, loop);
    }
  }
  loop.step_end = now;
}

void NoteSave(LoopCost& loop) {
  Settle(loop);
  loop.is_measuring = loop.step_end.has_value();
  loop.call_seconds = 0;
  loop.steps_after = 0;
  loop.slowed_seconds = 0;
}

void NoteCall(double seconds, LoopCost& loop) {
  loop.call_seconds = std::max(seconds, 0.0);
}

void NotePause(LoopCost& loop) {
  loop.is_measuring = false;
  loop.step_end.reset();
}

std::optional<double> CostOfSave(const LoopCost& loop) {
  if (loop.costs.empty()) return std::nullopt;
  return MedianOf(loop.costs);
}

}  // namespace belay
