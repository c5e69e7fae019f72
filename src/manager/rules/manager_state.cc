#include "manager/rules/manager_state.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/close_keys.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace {

constexpr double kSecondsPerHour = 3600;

std::string NumberText(int64_t step) {
  return absl::StrFormat("step %d", step);
}

// After a crash, a step may be committed that the state only announces.
void Adopt(const std::vector<int64_t>& committed, RecoveredState& recovered) {
  std::optional<StepRecord>& saving = recovered.state.saving;
  if (!saving) return;
  if (std::ranges::binary_search(committed, saving->step)) {
    recovered.notes.push_back(
        NumberText(saving->step) +
        " was committed by a job that ended before it could write that down; "
        "it is managed now");
    PutRecord(*std::move(saving), recovered.state.steps);
  }
  saving.reset();
}

}  // namespace

bool HasBest(const ManagerOptions& options) {
  return options.best_fn != nullptr || !options.best_metric.empty();
}

void PutRecord(StepRecord record, std::vector<StepRecord>& steps) {
  const auto place = std::lower_bound(
      steps.begin(), steps.end(), record.step,
      [](const StepRecord& a, int64_t step) { return a.step < step; });
  if (place != steps.end() && place->step == record.step) {
    *place = std::move(record);
  } else {
    steps.insert(place, std::move(record));
  }
}

void KeepOnly(const std::vector<int64_t>& steps,
              std::vector<StepRecord>& records) {
  std::erase_if(records, [&](const StepRecord& record) {
    return !std::ranges::binary_search(steps, record.step);
  });
}

void ForgetNewer(int64_t step, ManagerState& state) {
  const auto is_newer = [&](const StepRecord& record) {
    return record.step > step;
  };
  if (std::none_of(state.steps.begin(), state.steps.end(), is_newer)) return;
  std::erase_if(state.steps, is_newer);
  if (state.steps.empty()) return;
  // Earlier than whatever is not preserved.
  double last = state.steps.front().time - 1;
  for (const StepRecord& record : state.steps) {
    if (record.preserved) last = std::max(last, record.time);
  }
  state.last_preserved = std::min(state.last_preserved, last);
}

RecoveredState RecoverState(std::optional<ManagerState> stored,
                            const std::vector<int64_t>& committed, double now) {
  RecoveredState recovered;
  ManagerState& state = recovered.state;
  if (!stored) {
    // Earlier than whatever is saved from now on.
    state.last_preserved = now - 1;
    return recovered;
  }
  state = *std::move(stored);
  if (state.going_back) ForgetNewer(state.going_back->to, state);
  Adopt(committed, recovered);
  KeepOnly(committed, state.steps);
  if (now < state.last_preserved) {
    recovered.notes.push_back(absl::StrFormat(
        "the clock is behind the last preserved step (need at least %.0f, "
        "found %.0f); the steps that are there will not be deleted",
        state.last_preserved, now));
    state.last_preserved = now;
  }
  for (StepRecord& record : state.steps) {
    if (std::min(record.time, now) <= state.last_preserved) {
      record.preserved = true;
    }
  }
  return recovered;
}

namespace {

RetentionPolicy BestPolicy(const ManagerOptions& options,
                           const BestNOptions& best) {
  return options.best_fn ? BestN(options.best_fn, best)
                         : BestN(options.best_metric, best);
}

}  // namespace

RetentionPolicy PolicyOf(const ManagerOptions& options) {
  if (options.retention) return *options.retention;
  std::vector<RetentionPolicy> rules;
  if (options.keep_period) rules.push_back(EveryNSteps(*options.keep_period));
  if (options.keep_time_interval) {
    rules.push_back(EveryNSeconds(*options.keep_time_interval));
  }
  const BestNOptions best{.n = options.max_to_keep,
                          .reverse = options.best_mode == "min",
                          .keep_checkpoints_without_metrics =
                              options.keep_checkpoints_without_metrics};
  rules.push_back(HasBest(options) ? BestPolicy(options, best)
                                   : LatestN(options.max_to_keep));
  return AnyOfPolicies(std::move(rules));
}

StatusOr<std::optional<int64_t>> BestOf(
    const ManagerOptions& options, const std::vector<StepRecord>& records) {
  // A step that cannot be judged comes first, so that it is never the best: of
  // one step the policy would keep any.
  std::vector<StepRecord> with_room = records;
  with_room.insert(with_room.begin(), StepRecord{.step = -1});
  const BestNOptions best{.n = 1,
                          .reverse = options.best_mode == "min",
                          .keep_checkpoints_without_metrics = false};
  BELAY_ASSIGN_OR_RETURN(
      const std::vector<bool> kept,
      ApplyRetention(BestPolicy(options, best), with_room, 0));
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] && with_room[i].step >= 0) return with_room[i].step;
  }
  return std::nullopt;
}

std::string NoteOnMetrics(const ManagerOptions& options,
                          const StepRecord& record) {
  if (options.best_metric.empty() || !record.metrics ||
      record.metrics->contains(options.best_metric)) {
    return "";
  }
  CloseKeys close(options.best_metric);
  for (const auto& [name, value] : *record.metrics) close.Offer(name);
  return absl::StrFormat(
      "the metrics of step %d have no \"%s\", which is best_metric%s",
      record.step, options.best_metric, close.Hint());
}

StatusOr<RetentionPlan> PlanRetention(const RetentionPolicy& policy,
                                      std::optional<double> hours,
                                      const ManagerState& state, double now) {
  std::vector<StepRecord> active;
  for (const StepRecord& record : state.steps) {
    if (!record.preserved) active.push_back(record);
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<bool> kept,
                         ApplyRetention(policy, active, now));
  RetentionPlan plan{.last_preserved = state.last_preserved};
  for (size_t i = 0; i < active.size(); ++i) {
    if (kept[i]) continue;
    const StepRecord& record = active[i];
    if (hours &&
        record.time - *hours * kSecondsPerHour >= plan.last_preserved) {
      plan.preserve.push_back(record.step);
      plan.last_preserved = record.time;
    } else {
      plan.remove.push_back(record.step);
    }
  }
  return plan;
}

void CarryOut(const RetentionPlan& plan, ManagerState& state) {
  state.last_preserved = plan.last_preserved;
  for (StepRecord& record : state.steps) {
    record.preserved = record.preserved ||
                       std::ranges::binary_search(plan.preserve, record.step);
  }
  std::erase_if(state.steps, [&](const StepRecord& record) {
    return std::ranges::binary_search(plan.remove, record.step);
  });
}

}  // namespace belay
