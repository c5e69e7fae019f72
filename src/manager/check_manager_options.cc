#include "manager/check_manager_options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/option_table.h"
#include "core/text.h"
#include "format/paths.h"
#include "manager/retention_plan.h"
#include "manager/stop_signals.h"

namespace belay {
namespace {

using Mistakes = std::vector<std::string>;

void Contradict(bool both, const std::string& what, Mistakes& mistakes) {
  if (both) mistakes.push_back(what);
}

// Returns a text such as "a, b and c", without options that do not exist in the
// program's language.
template <typename M, typename... Ts>
std::string Names(std::string_view last, Ts M::*... fields) {
  std::vector<std::string> names;
  const auto add = [&](auto field) {
    const auto row = FindRow(field);
    if (!row.is_only_cpp() || LanguageOfProgram() == Language::kCpp) {
      names.push_back(BareName(field));
    }
  };
  (add(fields), ...);
  if (names.size() < 2) return absl::StrJoin(names, "");
  const std::string end = Cat(last, names.back());
  names.pop_back();
  return absl::StrJoin(names, ", ") + end;
}

template <typename M, typename T, typename... Ts>
std::string TakesThePlace(T M::*one, Ts M::*... others) {
  return Cat(BareName(one), " takes the place of ", Names(" and ", others...),
             "; set only one of them");
}

bool HasStepRules(const SavePolicy& policy) {
  return policy.save_interval_steps != 1 || !policy.save_on_steps.empty() ||
         !policy.save_first_step;
}

bool HasKeepRules(const RetentionPolicy& retention) {
  return retention.max_to_keep || retention.keep_period ||
         retention.keep_time_interval ||
         retention.keep_checkpoint_every_n_hours;
}

void CheckSaving(const ManagerOptions& options, Mistakes& mistakes) {
  const SavePolicy& policy = options.save_policy;
  Contradict(
      policy.should_save && HasStepRules(policy),
      TakesThePlace(&SavePolicy::should_save, &SavePolicy::save_interval_steps,
                    &SavePolicy::save_on_steps, &SavePolicy::save_first_step),
      mistakes);
  Contradict(policy.checkpoint_interval && policy.step_counter == nullptr,
             "checkpoint_interval needs step_counter", mistakes);
  Contradict(policy.checkpoint_interval &&
                 (policy.should_save || HasStepRules(policy)),
             TakesThePlace(
                 &SavePolicy::checkpoint_interval,
                 &SavePolicy::save_interval_steps, &SavePolicy::save_on_steps,
                 &SavePolicy::save_first_step, &SavePolicy::should_save),
             mistakes);
  Contradict(
      policy.auto_interval && (policy.should_save || HasStepRules(policy) ||
                               policy.checkpoint_interval),
      TakesThePlace(&SavePolicy::auto_interval,
                    &SavePolicy::save_interval_steps,
                    &SavePolicy::save_on_steps, &SavePolicy::save_first_step,
                    &SavePolicy::should_save, &SavePolicy::checkpoint_interval),
      mistakes);
  for (const int signal : options.stop_signals) {
    const std::string against = AgainstCatching(signal);
    if (!against.empty()) mistakes.push_back(Cat("stop_signals: ", against));
  }
}

void CheckKeeping(const RetentionPolicy& retention, Mistakes& mistakes) {
  Contradict(
      retention.keep_time_interval && retention.keep_checkpoint_every_n_hours,
      Cat(Names(" and ", &RetentionPolicy::keep_time_interval,
                &RetentionPolicy::keep_checkpoint_every_n_hours),
          " are two rules for one thing; set only one of them"),
      mistakes);
  const std::string best =
      Names(" or ", &RetentionPolicy::best_fn, &RetentionPolicy::best_metric);
  Contradict(retention.best_fn && !retention.best_metric.empty(),
             "best_fn and best_metric both say what is best; set only one of "
             "them",
             mistakes);
  Contradict(retention.best_mode == BestMode::kMin && !HasBest(retention),
             Cat("best_mode needs ", best), mistakes);
  Contradict(!retention.keep_checkpoints_without_metrics && !HasBest(retention),
             Cat("keep_checkpoints_without_metrics needs ", best), mistakes);
  Contradict(retention.preservation && HasKeepRules(retention),
             TakesThePlace(&RetentionPolicy::preservation,
                           &RetentionPolicy::max_to_keep,
                           &RetentionPolicy::keep_period,
                           &RetentionPolicy::keep_time_interval,
                           &RetentionPolicy::keep_checkpoint_every_n_hours),
             mistakes);
  if (!retention.preservation) return;
  const Status sound =
      ApplyPreservation(*retention.preservation, {}, 0).status();
  if (!sound.ok()) mistakes.emplace_back(sound.message());
}

void CheckReadOnly(const ManagerOptions& options, Mistakes& mistakes) {
  if (!options.read_only) return;
  Contradict(HasKeepRules(options.retention) || options.retention.preservation,
             "read_only deletes nothing: set no rule for what to keep",
             mistakes);
  Contradict(options.newer_steps != NewerSteps::kRefuse,
             "read_only moves nothing: leave newer_steps as it is", mistakes);
  Contradict(HasStepRules(options.save_policy) ||
                 options.save_policy.should_save ||
                 options.save_policy.checkpoint_interval ||
                 options.save_policy.auto_interval,
             "read_only saves nothing: set no rule for when to save", mistakes);
  Contradict(options.async.has_value(),
             Cat("read_only saves nothing: leave ",
                 BareName(&ManagerOptions::async), " unset"),
             mistakes);
}

}  // namespace

Status CheckManagerOptions(const ManagerOptions& options) {
  Mistakes mistakes;
  const Status prefix = CheckStepPrefix(options.prefix);
  if (!prefix.ok()) mistakes.emplace_back(prefix.message());
  CheckSaving(options, mistakes);
  CheckKeeping(options.retention, mistakes);
  CheckReadOnly(options, mistakes);
  for (std::string& one : FindOutOfRange(options)) {
    mistakes.push_back(std::move(one));
  }
  if (mistakes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "check the options of a manager: ", absl::StrJoin(mistakes, "; ")));
}

}  // namespace belay
