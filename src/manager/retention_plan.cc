// The rules of belay/manager/retention_policy.h, and the steps of a run that
// they keep.
#include "manager/retention_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/manager/retention_policy.h"
#include "core/catch_exceptions.h"
#include "core/keys.h"
#include "core/status_macros.h"

namespace belay {
namespace {

using Records = std::vector<StepRecord>;
using Flags = std::vector<bool>;

std::string Text(std::optional<int64_t> number) {
  return number ? absl::StrCat(*number) : "all";
}

Status AtLeast(const char* name, int64_t value, int64_t low) {
  if (value >= low) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s is out of range (need at least %d, found %d)", name, low, value));
}

Status CheckSeconds(double seconds) {
  if (seconds >= 0) return absl::OkStatus();  // false also for NaN
  return absl::InvalidArgumentError(absl::StrFormat(
      "seconds is out of range (need at least 0, found %g)", seconds));
}

Status CheckEvery(int64_t n, std::optional<int64_t> max_to_keep) {
  BELAY_RETURN_IF_ERROR(AtLeast("n", n, 1));
  return AtLeast("max_to_keep", max_to_keep.value_or(0), 0);
}

// Clears all set flags except the last `max`.
void LimitTo(std::optional<int64_t> max, Flags& flags) {
  if (!max) return;
  int64_t left = *max;
  for (size_t i = flags.size(); i-- > 0;) {
    if (flags[i] && left-- <= 0) flags[i] = false;
  }
}

// The multiple of `n` closest to a step, divided by `n`, and its distance. Of
// two equally close ones, the even quotient.
struct Closest {
  int64_t multiple;
  int64_t distance;
};

Closest ClosestMultiple(int64_t step, int64_t n) {
  const int64_t below = step / n;
  const int64_t rest = step % n;
  const int64_t above = n - rest;
  if (rest < above || (rest == above && below % 2 == 0)) return {below, rest};
  return {below + 1, above};
}

Flags KeepClosest(const Records& steps, int64_t n) {
  Flags flags(steps.size(), false);
  if (steps.empty()) return flags;
  size_t best = 0;
  for (size_t i = 1; i < steps.size(); ++i) {
    const Closest mine = ClosestMultiple(steps[i].step, n);
    const Closest other = ClosestMultiple(steps[best].step, n);
    if (mine.multiple != other.multiple) flags[best] = true;
    if (mine.multiple != other.multiple || mine.distance <= other.distance) {
      best = i;
    }
  }
  flags[best] = true;
  flags.back() = true;
  return flags;
}

// Returns nullopt if a step cannot be judged.
using Judge = std::function<std::optional<double>(const Metrics&)>;

// Returns the value and index of each step that can be judged, in the order of
// the steps.
std::vector<std::pair<double, size_t>> Judged(const Records& steps,
                                              const Judge& judge) {
  std::vector<std::pair<double, size_t>> judged;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].metrics) continue;
    const std::optional<double> value = judge(*steps[i].metrics);
    if (value) judged.emplace_back(*value, i);
  }
  return judged;
}

StatusOr<Flags> KeepBest(const Records& steps, const Judge& judge,
                         const BestNOptions& options) {
  const auto count = static_cast<int64_t>(steps.size());
  BELAY_RETURN_IF_ERROR(AtLeast("n", options.n.value_or(0), 0));
  if (!options.n || count <= *options.n) return Flags(steps.size(), true);
  Flags flags(steps.size(), false);
  if (*options.n == 0) return flags;
  auto judged = Judged(steps, judge);
  if (options.keep_checkpoints_without_metrics) {
    flags.assign(steps.size(), true);
    for (const auto& [value, i] : judged) flags[i] = false;
  }
  std::stable_sort(judged.begin(), judged.end(),
                   [&](const auto& a, const auto& b) {
                     if (std::isnan(a.first) || std::isnan(b.first)) {
                       return std::isnan(a.first) && !std::isnan(b.first);
                     }
                     return options.mode == BestMode::kMin ? a.first > b.first
                                                           : a.first < b.first;
                   });
  const auto kept = std::min<size_t>(*options.n, judged.size());
  for (size_t i = judged.size() - kept; i < judged.size(); ++i) {
    flags[judged[i].second] = true;
  }
  return flags;
}

PreservationPolicy BestBy(Judge judge, const std::string& metric,
                          const BestNOptions& options) {
  return {
      .description = "BestN",
      .parameters = {{"metric", metric},
                     {"n", Text(options.n)},
                     {"mode", options.mode == BestMode::kMin ? "min" : "max"},
                     {"keep_checkpoints_without_metrics",
                      options.keep_checkpoints_without_metrics ? "true"
                                                               : "false"}},
      .keep = [judge = std::move(judge), options](const Records& steps,
                                                  double) -> StatusOr<Flags> {
        if (!judge) {
          return absl::InvalidArgumentError("no function for the metrics");
        }
        return KeepBest(steps, judge, options);
      }};
}

}  // namespace

PreservationPolicy PreserveAll() {
  return {.description = "PreserveAll",
          .parameters = {},
          .keep = [](const Records& steps, double) {
            return Flags(steps.size(), true);
          }};
}

PreservationPolicy LatestN(std::optional<int64_t> n) {
  return {.description = "LatestN",
          .parameters = {{"n", Text(n)}},
          .keep = [n](const Records& steps, double) -> StatusOr<Flags> {
            BELAY_RETURN_IF_ERROR(AtLeast("n", n.value_or(0), 0));
            Flags flags(steps.size(), true);
            LimitTo(n, flags);
            return flags;
          }};
}

PreservationPolicy EveryNSeconds(double seconds) {
  return {.description = "EveryNSeconds",
          .parameters = {{"seconds", absl::StrFormat("%.17g", seconds)}},
          .keep = [seconds](const Records& steps, double) -> StatusOr<Flags> {
            BELAY_RETURN_IF_ERROR(CheckSeconds(seconds));
            Flags flags(steps.size(), false);
            const StepRecord* last = nullptr;
            for (size_t i = 0; i < steps.size(); ++i) {
              // If negative, the clock was put back, and the real time is
              // unknown.
              const double since = last ? steps[i].time - last->time : seconds;
              if (since >= 0 && since < seconds) continue;
              flags[i] = true;
              last = &steps[i];
            }
            return flags;
          }};
}

PreservationPolicy EveryNSteps(int64_t n, const EveryNStepsOptions& options) {
  return {
      .description = "EveryNSteps",
      .parameters = {{"n", absl::StrCat(n)},
                     {"exact", options.exact ? "true" : "false"},
                     {"max_to_keep", Text(options.max_to_keep)}},
      .keep = [n, options](const Records& steps, double) -> StatusOr<Flags> {
        BELAY_RETURN_IF_ERROR(CheckEvery(n, options.max_to_keep));
        Flags flags(steps.size(), false);
        const StepRecord* last = nullptr;
        for (size_t i = 0; i < steps.size(); ++i) {
          const bool due = options.exact
                               ? steps[i].step % n == 0
                               : !last || steps[i].step - last->step >= n;
          if (!due) continue;
          flags[i] = true;
          last = &steps[i];
        }
        LimitTo(options.max_to_keep, flags);
        return flags;
      }};
}

PreservationPolicy EveryNStepsClosest(int64_t n,
                                      std::optional<int64_t> max_to_keep) {
  return {.description = "EveryNStepsClosest",
          .parameters = {{"n", absl::StrCat(n)},
                         {"max_to_keep", Text(max_to_keep)}},
          .keep = [n, max_to_keep](const Records& steps,
                                   double) -> StatusOr<Flags> {
            BELAY_RETURN_IF_ERROR(CheckEvery(n, max_to_keep));
            Flags flags = KeepClosest(steps, n);
            LimitTo(max_to_keep, flags);
            return flags;
          }};
}

PreservationPolicy CustomSteps(const std::vector<int64_t>& steps) {
  const std::set<int64_t> wanted(steps.begin(), steps.end());
  return {.description = "CustomSteps",
          .parameters = {{"steps", absl::StrJoin(wanted, ",")}},
          .keep = [wanted](const Records& records, double) {
            Flags flags;
            for (const StepRecord& record : records) {
              flags.push_back(wanted.contains(record.step));
            }
            return flags;
          }};
}

PreservationPolicy BestN(MetricFunction metric, const BestNOptions& options) {
  if (!metric) return BestBy(nullptr, "a function", options);
  return BestBy(std::move(metric), "a function", options);
}

PreservationPolicy BestN(const std::string& metric,
                         const BestNOptions& options) {
  const auto judge = [metric](const Metrics& metrics) -> std::optional<double> {
    const auto found = metrics.find(metric);
    if (found == metrics.end()) return std::nullopt;
    return found->second;
  };
  return BestBy(judge, metric, options);
}

PreservationPolicy LatestDuration(double seconds) {
  return {
      .description = "LatestDuration",
      .parameters = {{"seconds", absl::StrFormat("%.17g", seconds)}},
      .keep = [seconds](const Records& steps, double now) -> StatusOr<Flags> {
        BELAY_RETURN_IF_ERROR(CheckSeconds(seconds));
        Flags flags;
        bool young = false;
        for (const StepRecord& record : steps) {
          young = young || now - record.time <= seconds;
          flags.push_back(young);
        }
        return flags;
      }};
}

PreservationPolicy AnyOfPolicies(std::vector<PreservationPolicy> policies) {
  PreservationPolicy any{.description = "AnyOfPolicies", .parameters = {}};
  for (const PreservationPolicy& policy : policies) {
    for (const auto& [name, value] : policy.parameters) {
      any.parameters.emplace_back(policy.description + "." + name, value);
    }
    if (policy.parameters.empty()) {
      any.parameters.emplace_back(policy.description, "");
    }
  }
  any.keep = [policies = std::move(policies)](const Records& steps,
                                              double now) -> StatusOr<Flags> {
    if (policies.empty()) {
      return absl::InvalidArgumentError("no policies; need at least one");
    }
    Flags flags(steps.size(), false);
    for (const PreservationPolicy& policy : policies) {
      BELAY_ASSIGN_OR_RETURN(const Flags kept,
                             ApplyPreservation(policy, steps, now));
      for (size_t i = 0; i < kept.size(); ++i) flags[i] = flags[i] || kept[i];
    }
    return flags;
  };
  return any;
}

StatusOr<std::vector<bool>> ApplyPreservation(
    const PreservationPolicy& policy, const std::vector<StepRecord>& steps,
    double now) {
  if (policy.keep == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("preservation policy \"%s\": no function to call; set "
                        "`keep`",
                        policy.description));
  }
  StatusOr<Flags> flags =
      CatchExceptions([&] { return policy.keep(steps, now); });
  if (!flags.ok()) {
    return Status(
        flags.status().code(),
        absl::StrFormat("preservation policy \"%s\": %s", policy.description,
                        flags.status().message()));
  }
  if (flags->size() != steps.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "preservation policy \"%s\": wrong number of flags (need "
        "one for each step, "
        "%d, found %d)",
        policy.description, steps.size(), flags->size()));
  }
  return flags;
}

// --- Retention plan ---

namespace {

constexpr double kSecondsPerHour = 3600;

PreservationPolicy BestPolicy(const RetentionPolicy& retention,
                              const BestNOptions& best) {
  return retention.best_fn ? BestN(retention.best_fn, best)
                           : BestN(retention.best_metric, best);
}

int64_t NewestPreserved(const ManagerState& state) {
  int64_t newest = -1;
  for (const StepRecord& record : state.steps) {
    if (record.preserved) newest = std::max(newest, record.step);
  }
  return newest;
}

bool HasRulesAboutTime(const RetentionPolicy& retention) {
  return retention.keep_checkpoint_every_n_hours ||
         retention.keep_time_interval || retention.preservation;
}

}  // namespace

bool HasBest(const RetentionPolicy& retention) {
  return retention.best_fn != nullptr || !retention.best_metric.empty();
}

PreservationPolicy MakePolicy(const RetentionPolicy& retention) {
  if (retention.preservation) return *retention.preservation;
  std::vector<PreservationPolicy> rules;
  if (retention.keep_period) {
    rules.push_back(EveryNSteps(*retention.keep_period));
  }
  if (retention.keep_time_interval) {
    rules.push_back(EveryNSeconds(*retention.keep_time_interval));
  }
  const BestNOptions best{.n = retention.max_to_keep,
                          .mode = retention.best_mode,
                          .keep_checkpoints_without_metrics =
                              retention.keep_checkpoints_without_metrics};
  rules.push_back(HasBest(retention) ? BestPolicy(retention, best)
                                     : LatestN(retention.max_to_keep));
  return AnyOfPolicies(std::move(rules));
}

StatusOr<std::optional<int64_t>> FindBest(
    const RetentionPolicy& retention, const std::vector<StepRecord>& records) {
  // If there were only one step, the policy would keep it even if it cannot be
  // judged. Therefore a step that cannot be judged is added.
  std::vector<StepRecord> with_room = records;
  with_room.insert(with_room.begin(), StepRecord{.step = -1});
  const BestNOptions best{.n = 1,
                          .mode = retention.best_mode,
                          .keep_checkpoints_without_metrics = false};
  BELAY_ASSIGN_OR_RETURN(
      const std::vector<bool> kept,
      ApplyPreservation(BestPolicy(retention, best), with_room, 0));
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] && with_room[i].step >= 0) return with_room[i].step;
  }
  return std::nullopt;
}

std::string NoteOnMetrics(const RetentionPolicy& retention,
                          const StepRecord& record) {
  if (retention.best_metric.empty() || !record.metrics ||
      record.metrics->contains(retention.best_metric)) {
    return "";
  }
  CloseKeys close(retention.best_metric);
  for (const auto& [name, value] : *record.metrics) close.Offer(name);
  return absl::StrFormat(
      "the metrics of step %d have no \"%s\", which is best_metric%s",
      record.step, retention.best_metric, close.Hint());
}

std::string NoteOnClock(const RetentionPolicy& retention,
                        const std::vector<StepRecord>& records, int64_t saved) {
  const auto after =
      std::ranges::lower_bound(records, saved, {}, &StepRecord::step);
  const bool has_two = after != records.begin() && after != records.end() &&
                       after->step == saved;
  if (!has_two || !HasRulesAboutTime(retention)) return "";
  const StepRecord& before = *(after - 1);
  if (after->time >= before.time) return "";
  return absl::StrFormat(
      "the clock was put back by at least %.3g s between step %d and step %d; "
      "rules about time begin anew with step %d",
      before.time - after->time, before.step, saved, saved);
}

StatusOr<RetentionPlan> PlanRetention(const PreservationPolicy& policy,
                                      std::optional<double> hours,
                                      const ManagerState& state, double now) {
  std::vector<StepRecord> active;
  for (const StepRecord& record : state.steps) {
    if (!record.preserved) active.push_back(record);
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<bool> kept,
                         ApplyPreservation(policy, active, now));
  RetentionPlan plan{.last_preserved = state.last_preserved};
  int64_t newest_preserved = NewestPreserved(state);
  for (size_t i = 0; i < active.size(); ++i) {
    if (kept[i]) continue;
    const StepRecord& record = active[i];
    const double since = record.time - plan.last_preserved;
    // If so, the clock was put back, and the real time is unknown.
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
