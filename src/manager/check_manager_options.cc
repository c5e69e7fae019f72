#include "manager/check_manager_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "manager/retention_plan.h"
#include "manager/stop_signals.h"

namespace belay {
namespace {

using Mistakes = std::vector<std::string>;

void CheckAtLeast(const char* name, std::optional<int64_t> value, int64_t low,
                  Mistakes& mistakes) {
  if (!value || *value >= low) return;
  mistakes.push_back(absl::StrFormat(
      "%s is out of range (need at least %d, found %d)", name, low, *value));
}

void CheckPositive(const char* name, std::optional<double> value,
                   Mistakes& mistakes) {
  if (!value || (*value > 0 && std::isfinite(*value))) return;
  mistakes.push_back(absl::StrFormat(
      "%s is out of range (need more than 0, found %g)", name, *value));
}

void Contradict(bool both, const char* what, Mistakes& mistakes) {
  if (both) mistakes.emplace_back(what);
}

bool HasStepRules(const ManagerOptions& options) {
  return options.save_interval_steps != 1 || !options.save_on_steps.empty() ||
         !options.save_first_step;
}

bool HasKeepRules(const ManagerOptions& options) {
  return options.max_to_keep || options.keep_period ||
         options.keep_time_interval || options.keep_checkpoint_every_n_hours;
}

void CheckSaving(const ManagerOptions& options, Mistakes& mistakes) {
  CheckAtLeast("save_interval_steps", options.save_interval_steps, 1, mistakes);
  CheckAtLeast("checkpoint_interval", options.checkpoint_interval, 1, mistakes);
  for (const int64_t step : options.save_on_steps) {
    CheckAtLeast("a step of save_on_steps", step, 0, mistakes);
  }
  Contradict(
      options.should_save && HasStepRules(options),
      "should_save takes the place of save_interval_steps, save_on_steps "
      "and save_first_step; set only one of them",
      mistakes);
  Contradict(options.checkpoint_interval && options.step_counter == nullptr,
             "checkpoint_interval needs step_counter", mistakes);
  Contradict(options.checkpoint_interval &&
                 (options.should_save || HasStepRules(options)),
             "checkpoint_interval takes the place of save_interval_steps, "
             "save_on_steps, save_first_step and should_save; set only one of "
             "them",
             mistakes);
}

void CheckInterval(const ManagerOptions& options, Mistakes& mistakes) {
  if (!options.auto_interval) return;
  CheckPositive("mtbf_seconds of auto_interval",
                options.auto_interval->mtbf_seconds, mistakes);
  const double budget = options.auto_interval->overhead_budget;
  if (!(budget > 0 && budget < 1)) {
    mistakes.push_back(absl::StrFormat(
        "overhead_budget of auto_interval is out of range (need more than 0 "
        "and less than 1, found %g)",
        budget));
  }
  Contradict(options.should_save || HasStepRules(options) ||
                 options.checkpoint_interval,
             "auto_interval takes the place of save_interval_steps, "
             "save_on_steps, save_first_step, should_save and "
             "checkpoint_interval; set only one of them",
             mistakes);
}

void CheckStopping(const ManagerOptions& options, Mistakes& mistakes) {
  CheckAtLeast("tolerated_failures", options.tolerated_failures, 0, mistakes);
  for (const int signal : options.stop_signals) {
    const std::string against = AgainstCatching(signal);
    if (!against.empty()) {
      mistakes.push_back(absl::StrCat("stop_signals: ", against));
    }
  }
  CheckPositive("time_limit_poll_seconds", options.time_limit_poll_seconds,
                mistakes);
  if (!(options.final_save_margin >= 0 &&
        std::isfinite(options.final_save_margin))) {
    mistakes.push_back(absl::StrFormat(
        "final_save_margin is out of range (need at least 0, found %g)",
        options.final_save_margin));
  }
  if (options.end_time && !std::isfinite(*options.end_time)) {
    mistakes.push_back(absl::StrFormat(
        "end_time is not a time (need seconds since 1970, found %g)",
        *options.end_time));
  }
}

void CheckKeeping(const ManagerOptions& options, Mistakes& mistakes) {
  CheckAtLeast("max_to_keep", options.max_to_keep, 0, mistakes);
  CheckAtLeast("keep_period", options.keep_period, 1, mistakes);
  CheckPositive("keep_time_interval", options.keep_time_interval, mistakes);
  CheckPositive("keep_checkpoint_every_n_hours",
                options.keep_checkpoint_every_n_hours, mistakes);
  Contradict(
      options.keep_time_interval && options.keep_checkpoint_every_n_hours,
      "keep_time_interval and keep_checkpoint_every_n_hours are two rules for "
      "one thing; set only one of them",
      mistakes);
  if (options.best_mode != "max" && options.best_mode != "min") {
    mistakes.push_back(
        absl::StrFormat("best_mode is unknown (need \"max\" or \"min\", found "
                        "\"%s\")",
                        options.best_mode));
  }
  Contradict(options.best_fn && !options.best_metric.empty(),
             "best_fn and best_metric both say what is best; set only one of "
             "them",
             mistakes);
  Contradict(options.best_mode == "min" && !HasBest(options),
             "best_mode needs best_fn or best_metric", mistakes);
  Contradict(!options.keep_checkpoints_without_metrics && !HasBest(options),
             "keep_checkpoints_without_metrics needs best_fn or best_metric",
             mistakes);
  Contradict(options.retention && HasKeepRules(options),
             "retention takes the place of max_to_keep, keep_period, "
             "keep_time_interval and keep_checkpoint_every_n_hours; set only "
             "one of them",
             mistakes);
  if (!options.retention) return;
  const Status sound = ApplyRetention(*options.retention, {}, 0).status();
  if (!sound.ok()) mistakes.emplace_back(sound.message());
}

void CheckReadOnly(const ManagerOptions& options, Mistakes& mistakes) {
  if (!options.read_only) return;
  Contradict(HasKeepRules(options) || options.retention,
             "read_only deletes nothing: set no rule for what to keep",
             mistakes);
  Contradict(options.newer_steps != NewerSteps::kRefuse,
             "read_only moves nothing: leave newer_steps as it is", mistakes);
  Contradict(HasStepRules(options) || options.should_save ||
                 options.checkpoint_interval || options.auto_interval,
             "read_only saves nothing: set no rule for when to save", mistakes);
  Contradict(options.async.has_value(),
             "read_only saves nothing: leave async unset", mistakes);
}

template <typename T>
std::string Bytes(const T& value) {
  WireWriter out;
  out.Put(value);
  return out.Take();
}

template <typename T>
std::string Bytes(const std::optional<T>& value) {
  return value ? Bytes(*value) : std::string();
}

std::string IntervalBytes(const ManagerOptions& options) {
  if (!options.auto_interval) return "";
  return Bytes(options.auto_interval->mtbf_seconds) +
         Bytes(options.auto_interval->overhead_budget);
}

std::string RetentionBytes(const ManagerOptions& options) {
  WireWriter out;
  if (!options.retention) return out.Take();
  out.PutText(options.retention->description);
  for (const auto& [name, value] : options.retention->parameters) {
    out.PutText(name);
    out.PutText(value);
  }
  return out.Take();
}

std::string AsyncBytes(const ManagerOptions& options) {
  if (!options.async) return "";
  return Bytes(options.async->max_staging_bytes) +
         Bytes(options.async->max_bytes_per_second) +
         Bytes(options.async->snapshot);
}

void CheckAsync(const ManagerOptions& options, Mistakes& mistakes) {
  if (!options.async) return;
  CheckAtLeast("max_staging_bytes of async", options.async->max_staging_bytes,
               0, mistakes);
  CheckAtLeast("max_bytes_per_second of async",
               options.async->max_bytes_per_second, 0, mistakes);
}

}  // namespace

Status CheckManagerOptions(const ManagerOptions& options) {
  Mistakes mistakes;
  const Status prefix = CheckStepPrefix(options.prefix);
  if (!prefix.ok()) mistakes.emplace_back(prefix.message());
  CheckSaving(options, mistakes);
  CheckInterval(options, mistakes);
  CheckAsync(options, mistakes);
  CheckStopping(options, mistakes);
  CheckKeeping(options, mistakes);
  CheckReadOnly(options, mistakes);
  if (options.restore_match > RestoreMatch::kConsumed) {
    mistakes.push_back(absl::StrFormat(
        "restore_match is out of range (need 0 to %d, found %d)",
        static_cast<int>(RestoreMatch::kConsumed),
        static_cast<int>(options.restore_match)));
  }
  if (mistakes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "check the options of a manager: ", absl::StrJoin(mistakes, "; ")));
}

std::vector<CommonOption> CommonManagerOptions(const ManagerOptions& options) {
  return {{"prefix", options.prefix},
          {"save_interval_steps", Bytes(options.save_interval_steps)},
          {"save_on_steps", absl::StrJoin(options.save_on_steps, ",")},
          {"save_first_step", Bytes(options.save_first_step)},
          {"should_save", Bytes(options.should_save != nullptr)},
          {"step_counter", Bytes(options.step_counter != nullptr)},
          {"checkpoint_interval", Bytes(options.checkpoint_interval)},
          {"auto_interval", IntervalBytes(options)},
          {"async", AsyncBytes(options)},
          {"tolerated_failures", Bytes(options.tolerated_failures)},
          {"stop_signals", absl::StrJoin(options.stop_signals, ",")},
          {"stop_at_time_limit", Bytes(options.stop_at_time_limit)},
          {"max_to_keep", Bytes(options.max_to_keep)},
          {"keep_period", Bytes(options.keep_period)},
          {"keep_time_interval", Bytes(options.keep_time_interval)},
          {"keep_checkpoint_every_n_hours",
           Bytes(options.keep_checkpoint_every_n_hours)},
          {"best_fn", Bytes(options.best_fn != nullptr)},
          {"best_metric", options.best_metric},
          {"best_mode", options.best_mode},
          {"keep_checkpoints_without_metrics",
           Bytes(options.keep_checkpoints_without_metrics)},
          {"retention", RetentionBytes(options)},
          {"read_only", Bytes(options.read_only)},
          {"remove_leftovers", Bytes(options.remove_leftovers)},
          {"restore_match", Bytes(options.restore_match)},
          {"newer_steps", Bytes(options.newer_steps)},
          {"init_fn", Bytes(options.init_fn != nullptr)}};
}

}  // namespace belay
