#include "manager/rules/save_decision.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"

namespace belay {
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
      std::max(request.save_counter, LatestOf(history).value_or(0));
  if (before < INT64_MAX) return before + 1;
  return absl::OutOfRangeError(
      absl::StrFormat("there is no step number after %d; pass a step", before));
}

bool HasRulesAboutSteps(const ManagerOptions& options) {
  return options.save_interval_steps != 1 || !options.save_on_steps.empty() ||
         !options.save_first_step;
}

// The step that the rules look at.
StatusOr<int64_t> StepForRules(const ManagerOptions& options,
                               const SaveRequest& request, int64_t number) {
  if (request.step) return number;
  if (request.counter) return *request.counter;
  if (!HasRulesAboutSteps(options)) return number;
  return absl::InvalidArgumentError(
      "save_interval_steps, save_on_steps and save_first_step need a step; "
      "pass one to Save, or set step_counter");
}

// Why checkpoint_interval is against it; "" if it is not.
std::string AgainstInterval(const ManagerOptions& options,
                            const SaveHistory& history,
                            const SaveRequest& request) {
  if (!options.checkpoint_interval || !request.counter) return "";
  if (request.counter == history.counter) {
    return absl::StrFormat("step_counter is still %d", *history.counter);
  }
  const std::optional<int64_t> before =
      history.missed ? history.missed->counter : history.counter;
  if (!before) return "";
  const int64_t since = *before;
  // Written as a difference of numbers of any size.
  const uint64_t grown =
      static_cast<uint64_t>(*request.counter) - static_cast<uint64_t>(since);
  if (request.force || request.is_last || request.makes_up ||
      (*request.counter > since &&
       grown >= static_cast<uint64_t>(*options.checkpoint_interval))) {
    return "";
  }
  return absl::StrFormat(
      "step_counter has not grown by checkpoint_interval (need %d, found %d)",
      *options.checkpoint_interval, static_cast<int64_t>(grown));
}

// Why auto_interval is against it; "" if it is not.
std::string AgainstAutoInterval(const SaveHistory& history,
                                const SaveRequest& request) {
  if (request.due_in <= 0) return "";
  if (!LatestOf(history) && !history.missed) return "";
  return absl::StrFormat("auto_interval: the next save is due in %.3g s",
                         request.due_in);
}

// Why the rules about steps are against it.
StatusOr<std::string> AgainstRules(const ManagerOptions& options,
                                   std::optional<int64_t> latest,
                                   int64_t step) {
  if (options.should_save) {
    const StatusOr<bool> save =
        CatchExceptions([&] { return options.should_save(step, latest); });
    if (!save.ok()) {
      return absl::InternalError(
          absl::StrCat("should_save: ", save.status().message()));
    }
    return *save ? std::string() : "should_save returned false";
  }
  if (!latest && options.save_first_step) return std::string();
  const bool is_start = step == 0 && !options.save_first_step;
  if (!is_start && step % options.save_interval_steps == 0) {
    return std::string();
  }
  if (std::find(options.save_on_steps.begin(), options.save_on_steps.end(),
                step) != options.save_on_steps.end()) {
    return std::string();
  }
  if (is_start) {
    return std::string("step 0 is the first, which save_first_step leaves out");
  }
  return absl::StrFormat(
      "step %d is neither a multiple of %d nor in save_on_steps", step,
      options.save_interval_steps);
}

// The newest step that is there, or a later one that was missed.
std::optional<int64_t> LatestForRules(const SaveHistory& history) {
  const std::optional<int64_t> latest = LatestOf(history);
  if (!history.missed) return latest;
  return std::max(latest.value_or(history.missed->step), history.missed->step);
}

// Why the number cannot be taken.
StatusOr<std::string> AgainstNumber(const SaveHistory& history,
                                    const SaveDecision& decision,
                                    const SaveRequest& request) {
  const std::optional<int64_t> latest = LatestOf(history);
  if (latest && *latest >= decision.step) {
    // The next start would restore the branch that was given up.
    if (history.restored && *history.restored < decision.step) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "step %d was restored, and step %d is not after the latest step %d; "
          "set ManagerOptions.newer_steps to go on from step %d, or restore "
          "the latest step",
          *history.restored, decision.step, *latest, *history.restored));
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
  return absl::AlreadyExistsError(
      absl::StrFormat("step %d is there already; choose another number or set "
                      "SaveOptions.overwrite",
                      decision.step));
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

std::optional<int64_t> LatestOf(const SaveHistory& history) {
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
  decision.reason = AgainstInterval(options, history, request);
  if (!decision.reason.empty()) return decision;
  BELAY_ASSIGN_OR_RETURN(decision.reason,
                         AgainstNumber(history, decision, request));
  decision.is_behind = !decision.reason.empty();
  if (decision.is_behind) return decision;
  if (request.is_last || request.makes_up) {
    decision.save = true;
    return decision;
  }
  if (!request.force && options.auto_interval) {
    decision.reason = AgainstAutoInterval(history, request);
  } else if (!request.force && !options.checkpoint_interval) {
    BELAY_ASSIGN_OR_RETURN(const int64_t asked,
                           StepForRules(options, request, step));
    BELAY_ASSIGN_OR_RETURN(
        decision.reason, AgainstRules(options, LatestForRules(history), asked));
  }
  decision.save = decision.reason.empty();
  return decision;
}

}  // namespace belay
