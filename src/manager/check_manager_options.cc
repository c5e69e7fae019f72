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

using M = ManagerOptions;

void Contradict(bool both, const std::string& what, Mistakes& mistakes) {
  if (both) mistakes.push_back(what);
}

// "a, b and c", without those that the program's language does not have.
template <typename... Ts>
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

template <typename T, typename... Ts>
std::string TakesThePlace(T M::*one, Ts M::*... others) {
  return Cat(BareName(one), " takes the place of ", Names(" and ", others...),
             "; set only one of them");
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
  Contradict(options.should_save && HasStepRules(options),
             TakesThePlace(&M::should_save, &M::save_interval_steps,
                           &M::save_on_steps, &M::save_first_step),
             mistakes);
  Contradict(options.checkpoint_interval && options.step_counter == nullptr,
             "checkpoint_interval needs step_counter", mistakes);
  Contradict(
      options.checkpoint_interval &&
          (options.should_save || HasStepRules(options)),
      TakesThePlace(&M::checkpoint_interval, &M::save_interval_steps,
                    &M::save_on_steps, &M::save_first_step, &M::should_save),
      mistakes);
  Contradict(
      options.auto_interval && (options.should_save || HasStepRules(options) ||
                                options.checkpoint_interval),
      TakesThePlace(&M::auto_interval, &M::save_interval_steps,
                    &M::save_on_steps, &M::save_first_step, &M::should_save,
                    &M::checkpoint_interval),
      mistakes);
  for (const int signal : options.stop_signals) {
    const std::string against = AgainstCatching(signal);
    if (!against.empty()) mistakes.push_back(Cat("stop_signals: ", against));
  }
}

void CheckKeeping(const ManagerOptions& options, Mistakes& mistakes) {
  Contradict(
      options.keep_time_interval && options.keep_checkpoint_every_n_hours,
      Cat(Names(" and ", &M::keep_time_interval,
                &M::keep_checkpoint_every_n_hours),
          " are two rules for one thing; set only one of them"),
      mistakes);
  if (options.best_mode != "max" && options.best_mode != "min") {
    mistakes.push_back(
        Cat("best_mode is unknown (need \"max\" or \"min\", found \"",
            options.best_mode, "\")"));
  }
  const std::string best = Names(" or ", &M::best_fn, &M::best_metric);
  Contradict(options.best_fn && !options.best_metric.empty(),
             "best_fn and best_metric both say what is best; set only one of "
             "them",
             mistakes);
  Contradict(options.best_mode == "min" && !HasBest(options),
             Cat("best_mode needs ", best), mistakes);
  Contradict(!options.keep_checkpoints_without_metrics && !HasBest(options),
             Cat("keep_checkpoints_without_metrics needs ", best), mistakes);
  Contradict(
      options.retention && HasKeepRules(options),
      TakesThePlace(&M::retention, &M::max_to_keep, &M::keep_period,
                    &M::keep_time_interval, &M::keep_checkpoint_every_n_hours),
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
  Contradict(
      options.async.has_value(),
      Cat("read_only saves nothing: leave ", BareName(&M::async), " unset"),
      mistakes);
}

}  // namespace

Status CheckManagerOptions(const ManagerOptions& options) {
  Mistakes mistakes;
  const Status prefix = CheckStepPrefix(options.prefix);
  if (!prefix.ok()) mistakes.emplace_back(prefix.message());
  CheckSaving(options, mistakes);
  CheckKeeping(options, mistakes);
  CheckReadOnly(options, mistakes);
  for (std::string& one : FindOutOfRange(options)) {
    mistakes.push_back(std::move(one));
  }
  if (mistakes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "check the options of a manager: ", absl::StrJoin(mistakes, "; ")));
}

}  // namespace belay
