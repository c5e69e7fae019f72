#include "manager/save_decision.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/manager/save_interval.h"
#include "core/catch_exceptions.h"
#include "core/option_table.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

bool IsTime(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

double DalysOptimum(double save, double mtbf) {
  const double ratio = save / (2 * mtbf);
  if (ratio >= 1) return mtbf;
  return std::sqrt(2 * save * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) -
         save;
}

std::string Text(double seconds) {
  return seconds < 100 ? absl::StrFormat("%.3g s", seconds)
                       : absl::StrFormat("%.0f s", seconds);
}

}  // namespace

StatusOr<SaveInterval> AdviseInterval(double save_seconds,
                                      double restore_seconds,
                                      const AutoInterval& with) {
  if (!IsTime(save_seconds) || !IsTime(restore_seconds)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "advise an interval: times of a save and of a restore (need at least "
        "0, found %g and %g)",
        save_seconds, restore_seconds));
  }
  if (!IsTime(with.mtbf_seconds) || with.mtbf_seconds == 0 ||
      !(with.overhead_budget > 0 && with.overhead_budget < 1)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "advise an interval: mtbf_seconds and overhead_budget (need more than "
        "0, the second below 1, found %g and %g)",
        with.mtbf_seconds, with.overhead_budget));
  }
  const double optimum = DalysOptimum(save_seconds, with.mtbf_seconds);
  const double least = save_seconds / with.overhead_budget;
  SaveInterval interval{.seconds = std::max(optimum, least)};
  if (save_seconds > 0) interval.saving = save_seconds / interval.seconds;
  interval.failing =
      (interval.seconds / 2 + restore_seconds) / with.mtbf_seconds;
  interval.reason = absl::StrCat(
      "save every ", Text(interval.seconds), ": Daly's optimum for saves of ",
      Text(save_seconds), " and a failure every ", Text(with.mtbf_seconds),
      " is ", Text(optimum));
  if (least > optimum) {
    absl::StrAppendFormat(&interval.reason,
                          ", but saves may cost at most %.3g %% of the time",
                          100 * with.overhead_budget);
  }
  absl::StrAppendFormat(&interval.reason,
                        "; expected to cost %.2g %% for saves, %.2g %% for "
                        "failures",
                        100 * interval.saving, 100 * interval.failing);
  return interval;
}

// --- Loop cost ---

namespace {

// Number of steps after a save that are measured.
constexpr int64_t kStepsAfter = 8;
// Number of these steps that the save may have slowed down.
constexpr int64_t kSlowedSteps = 3;
constexpr double kRememberedSteps = 500;

void AddStep(double seconds, LoopCost& loop) {
  loop.step_seconds += std::max(seconds, 0.0);
  loop.steps += 1;
  if (loop.steps <= kRememberedSteps) return;
  loop.step_seconds /= 2;
  loop.steps /= 2;
}

// Returns how much longer a step after a save took than others. Limited,
// because a much longer step did something else, such as a validation.
double SlowedSeconds(double seconds, const LoopCost& loop) {
  constexpr double kMaxOfStep = 4;
  const double usual = loop.step_seconds / loop.steps;
  return std::min(seconds - usual,
                  std::max(kMaxOfStep * usual, loop.call_seconds));
}

void Settle(LoopCost& loop) {
  if (loop.is_measuring && loop.steps_after > 0 && loop.steps > 0) {
    Remember(loop.call_seconds + std::max(loop.slowed_seconds, 0.0),
             loop.costs);
  }
  loop.is_measuring = false;
}

void NoteStepAfter(double seconds, bool is_saving, LoopCost& loop) {
  if (++loop.steps_after == 1) seconds -= loop.call_seconds;
  if (loop.steps > 0) loop.slowed_seconds += SlowedSeconds(seconds, loop);
  // The first steps after a save are not typical of the loop.
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

std::optional<double> EstimateCost(const LoopCost& loop) {
  if (loop.costs.empty()) return std::nullopt;
  return FindMedian(loop.costs);
}

// --- Time use ---

namespace {

constexpr size_t kRemembered = 5;
constexpr double kSlowerSave = 1.5;
constexpr double kStepsToTell = 2;
// A cost larger than this multiple of the duration is not due to the save.
constexpr double kMaxOfSave = 10;

double Largest(const std::vector<double>& times) {
  return times.empty() ? 0 : *std::max_element(times.begin(), times.end());
}

}  // namespace

double FindMedian(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void Remember(double seconds, std::vector<double>& times) {
  times.push_back(std::max(seconds, 0.0));
  if (times.size() > kRemembered) times.erase(times.begin());
}

std::optional<double> EstimateSaveSeconds(const TimeUse& use) {
  if (use.saves.empty()) return use.restore;
  return FindMedian(use.saves);
}

double SecondsToStop(const TimeUse& use, double margin) {
  const double save =
      use.saves.empty() ? use.restore.value_or(0) : Largest(use.saves);
  return margin + kSlowerSave * save + kStepsToTell * Largest(use.steps);
}

std::string AgainstLastSave(const TimeUse& use, std::optional<double> left) {
  if (!left || use.saves.empty()) return "";
  const double save = FindMedian(use.saves);
  if (save <= *left) return "";
  return absl::StrFormat(
      "the time limit comes before its end (need %.3g s, found %.3g s)", save,
      std::max(*left, 0.0));
}

StatusOr<std::optional<SaveInterval>> IntervalFor(const TimeUse& use,
                                                  const AutoInterval& with) {
  const std::optional<double> save = EstimateSaveSeconds(use);
  if (!save) return std::nullopt;
  // If the loop waits for saves, a save costs at least its duration.
  double cost = std::min(use.cost.value_or(*save), kMaxOfSave * *save);
  if (!use.in_background) cost = std::max(cost, *save);
  BELAY_ASSIGN_OR_RETURN(
      SaveInterval interval,
      AdviseInterval(cost, use.restore.value_or(*save), with));
  // In the background, a save costs the loop less than its duration.
  interval.seconds = std::max(interval.seconds, *save);
  return interval;
}

// --- Save decision ---

namespace {

StatusOr<int64_t> NumberOf(const SaveHistory& history,
                           const SaveRequest& request) {
  if (request.step && *request.step < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("step is out of range (need 0 to %d, found %d)",
                        INT64_MAX, *request.step));
  }
  if (request.step) return *request.step;
  const int64_t before =
      std::max(request.save_counter, FindLatest(history).value_or(0));
  if (before < INT64_MAX) return before + 1;
  return absl::OutOfRangeError(
      absl::StrFormat("there is no step number after %d; pass a step", before));
}

bool HasRulesAboutSteps(const SavePolicy& policy) {
  return policy.save_interval_steps != 1 || !policy.save_on_steps.empty() ||
         !policy.save_first_step;
}

// Returns the step to which the rules are applied.
StatusOr<int64_t> StepForRules(const SavePolicy& policy,
                               const SaveRequest& request, int64_t number) {
  if (request.step) return number;
  if (request.counter) return *request.counter;
  if (!HasRulesAboutSteps(policy)) return number;
  return absl::InvalidArgumentError(
      "save_interval_steps, save_on_steps and save_first_step need a step; "
      "pass one to Save, or set step_counter");
}

// Returns why checkpoint_interval forbids the save; "" if it does not.
std::string AgainstInterval(const SavePolicy& policy,
                            const SaveHistory& history,
                            const SaveRequest& request) {
  if (!policy.checkpoint_interval || !request.counter) return "";
  if (request.counter == history.counter) {
    return absl::StrFormat("step_counter is still %d", *history.counter);
  }
  const std::optional<int64_t> before =
      history.missed ? history.missed->counter : history.counter;
  if (!before) return "";
  const int64_t since = *before;
  // Unsigned, because the difference may overflow.
  const uint64_t grown =
      static_cast<uint64_t>(*request.counter) - static_cast<uint64_t>(since);
  if (request.force || request.is_last || request.makes_up ||
      (*request.counter > since &&
       grown >= static_cast<uint64_t>(*policy.checkpoint_interval))) {
    return "";
  }
  return absl::StrFormat(
      "step_counter has not grown by checkpoint_interval (need %d, found %d)",
      *policy.checkpoint_interval, static_cast<int64_t>(grown));
}

// Returns why auto_interval forbids the save; "" if it does not.
std::string AgainstAutoInterval(const SaveHistory& history,
                                const SaveRequest& request) {
  if (request.due_in <= 0) return "";
  if (!FindLatest(history) && !history.missed) return "";
  return absl::StrFormat("auto_interval: the next save is due in %.3g s",
                         request.due_in);
}

// Returns why the rules about steps forbid the save; "" if they do not.
StatusOr<std::string> AgainstRules(const SavePolicy& policy,
                                   std::optional<int64_t> latest,
                                   int64_t step) {
  if (policy.should_save) {
    const StatusOr<bool> save =
        CatchExceptions([&] { return policy.should_save(step, latest); });
    if (!save.ok()) {
      return absl::InternalError(
          absl::StrCat("should_save: ", save.status().message()));
    }
    return *save ? std::string() : "should_save returned false";
  }
  if (!latest && policy.save_first_step) return std::string();
  const bool is_start = step == 0 && !policy.save_first_step;
  if (!is_start && step % policy.save_interval_steps == 0) {
    return std::string();
  }
  if (std::find(policy.save_on_steps.begin(), policy.save_on_steps.end(),
                step) != policy.save_on_steps.end()) {
    return std::string();
  }
  if (is_start) {
    return std::string("step 0 is the first, which save_first_step leaves out");
  }
  return absl::StrFormat(
      "step %d is neither a multiple of %d nor in save_on_steps", step,
      policy.save_interval_steps);
}

// Returns the newest step, or a later step whose save was missed.
std::optional<int64_t> LatestForRules(const SaveHistory& history) {
  const std::optional<int64_t> latest = FindLatest(history);
  if (!history.missed) return latest;
  return std::max(latest.value_or(history.missed->step), history.missed->step);
}

// Returns why the step cannot have this number; "" if it can.
StatusOr<std::string> AgainstNumber(const SaveHistory& history,
                                    const SaveDecision& decision,
                                    const SaveRequest& request) {
  const std::optional<int64_t> latest = FindLatest(history);
  if (latest && *latest >= decision.step) {
    // The next start would restore the abandoned branch.
    if (history.restored && *history.restored < decision.step) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "step %d was restored, and step %d is not after the latest step %d; "
          "%s to go on from step %d, or restore the latest step",
          *history.restored, decision.step, *latest,
          SetOption(&ManagerOptions::newer_steps,
                    {NewerSteps::kSetAside, NewerSteps::kDelete}),
          *history.restored));
    }
    if (!request.force) {
      return absl::StrFormat("step %d is not after the latest step %d",
                             decision.step, *latest);
    }
  }
  if (!request.force || request.overwrite || decision.replaces_damaged ||
      !std::ranges::binary_search(history.steps, decision.step)) {
    return std::string();
  }
  return absl::AlreadyExistsError(Cat(
      "step ", decision.step, " is there already; choose another number or ",
      SetOption(&SaveOptions::overwrite)));
}

}  // namespace

void TakeSteps(std::vector<int64_t> steps, SaveHistory& history) {
  history.steps = std::move(steps);
  std::erase_if(history.damaged, [&](int64_t step) {
    return !std::ranges::binary_search(history.steps, step);
  });
  const bool any_newer = history.restored && !history.steps.empty() &&
                         history.steps.back() > *history.restored;
  if (!any_newer) history.restored.reset();
}

std::optional<int64_t> FindLatest(const SaveHistory& history) {
  for (size_t i = history.steps.size(); i-- > 0;) {
    if (!std::ranges::binary_search(history.damaged, history.steps[i])) {
      return history.steps[i];
    }
  }
  return std::nullopt;
}

StatusOr<SaveDecision> DecideSave(const ManagerOptions& options,
                                  const SaveHistory& history,
                                  const SaveRequest& request) {
  const SavePolicy& policy = options.save_policy;
  BELAY_ASSIGN_OR_RETURN(const int64_t step, NumberOf(history, request));
  SaveDecision decision{.step = step};
  if (options.read_only && request.force) {
    return absl::FailedPreconditionError(
        "the manager is read-only, so it cannot be forced to save");
  }
  if (options.read_only) {
    decision.reason = "the manager is read-only";
    return decision;
  }
  decision.replaces_damaged = std::ranges::binary_search(history.damaged, step);
  decision.reason = AgainstInterval(policy, history, request);
  if (!decision.reason.empty()) return decision;
  BELAY_ASSIGN_OR_RETURN(decision.reason,
                         AgainstNumber(history, decision, request));
  decision.is_behind = !decision.reason.empty();
  if (decision.is_behind) return decision;
  if (request.is_last || request.makes_up) {
    decision.save = true;
    return decision;
  }
  if (!request.force && policy.auto_interval) {
    decision.reason = AgainstAutoInterval(history, request);
  } else if (!request.force && !policy.checkpoint_interval) {
    BELAY_ASSIGN_OR_RETURN(const int64_t asked,
                           StepForRules(policy, request, step));
    BELAY_ASSIGN_OR_RETURN(
        decision.reason, AgainstRules(policy, LatestForRules(history), asked));
  }
  decision.save = decision.reason.empty();
  return decision;
}

}  // namespace belay
