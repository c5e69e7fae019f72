#include "manager/rules/retention_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/close_keys.h"
#include "base/status_macros.h"

namespace belay {
namespace {

constexpr double kSecondsPerHour = 3600;

RetentionPolicy BestPolicy(const ManagerOptions& options,
                           const BestNOptions& best) {
  return options.best_fn ? BestN(options.best_fn, best)
                         : BestN(options.best_metric, best);
}

int64_t NewestPreserved(const ManagerState& state) {
  int64_t newest = -1;
  for (const StepRecord& record : state.steps) {
    if (record.preserved) newest = std::max(newest, record.step);
  }
  return newest;
}

bool HasRulesAboutTime(const ManagerOptions& options) {
  return options.keep_checkpoint_every_n_hours || options.keep_time_interval ||
         options.retention;
}

}  // namespace

bool HasBest(const ManagerOptions& options) {
  return options.best_fn != nullptr || !options.best_metric.empty();
}

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

std::string NoteOnClock(const ManagerOptions& options,
                        const std::vector<StepRecord>& records, int64_t saved) {
  const auto after =
      std::ranges::lower_bound(records, saved, {}, &StepRecord::step);
  const bool has_two = after != records.begin() && after != records.end() &&
                       after->step == saved;
  if (!has_two || !HasRulesAboutTime(options)) return "";
  const StepRecord& before = *(after - 1);
  if (after->time >= before.time) return "";
  return absl::StrFormat(
      "the clock was put back by at least %.3g s between step %d and step %d; "
      "rules about time begin anew with step %d",
      before.time - after->time, before.step, saved, saved);
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
  int64_t newest_preserved = NewestPreserved(state);
  for (size_t i = 0; i < active.size(); ++i) {
    if (kept[i]) continue;
    const StepRecord& record = active[i];
    const double since = record.time - plan.last_preserved;
    // The clock was put back, and nobody knows how long it really was.
    const bool is_reset = since < 0 && record.step > newest_preserved;
    if (hours && (is_reset || since >= *hours * kSecondsPerHour)) {
      newest_preserved = std::max(newest_preserved, record.step);
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
