// Restores the newest step that can be restored, and goes back to older steps.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/log.h"
#include "core/option_table.h"
#include "core/status_macros.h"
#include "core/wire.h"
#include "format/paths.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"
#include "mpi/collective.h"
#include "pipeline/result_text.h"
#include "pipeline/stages.h"
#include "storage/commit.h"
#include "storage/posix_file.h"

namespace belay {

using Impl = CheckpointManager::Impl;

namespace {

// Verdict on a step that could not be restored.
enum class Verdict : uint8_t {
  kDamaged,  // an older step may be restorable
  kGone,     // another manager has deleted it
  kOther,    // the step is intact, but the program or the system has failed
};

// Rank 0 only.
StatusOr<Verdict> JudgeStep(const std::string& path, const Status& failure) {
  BELAY_ASSIGN_OR_RETURN(const bool is_there, Exists(path));
  if (!is_there) return Verdict::kGone;
  if (absl::IsFailedPrecondition(failure)) return Verdict::kOther;
  if (absl::IsDataLoss(failure)) return Verdict::kDamaged;
  return CheckStepOpens(path).ok() ? Verdict::kOther : Verdict::kDamaged;
}

// Judges a failure by its code or, if the code is ambiguous, by the files. A
// different dtype or shape is not damage. Collective.
Agreed<Verdict> JudgeFailure(const Impl& impl, int64_t step,
                             const Status& failure) {
  // NotFound may also mean that the step was just deleted.
  if (!absl::IsDataLoss(failure) && !absl::IsNotFound(failure) &&
      !absl::IsUnimplemented(failure) && !absl::IsFailedPrecondition(failure)) {
    return Verdict::kOther;
  }
  CommContext context = impl.ManagerContext("restore", true);
  return ShareFromRoot<Verdict>(
      context, [&] { return JudgeStep(impl.StepPath(step), failure); });
}

Status CheckWait(double timeout_seconds, double poll_seconds) {
  if (timeout_seconds >= 0 && poll_seconds > 0 && std::isfinite(poll_seconds)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "wait for a step: seconds out of range (need at least 0 and more than "
      "0, found %g and %g)",
      timeout_seconds, poll_seconds));
}

double Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

// Returns the steps after `step`, ascending.
std::vector<int64_t> NewerThan(int64_t step,
                               const std::vector<int64_t>& steps) {
  return {std::ranges::upper_bound(steps, step), steps.end()};
}

}  // namespace

Status Impl::NothingCanBeRestored(
    const std::vector<SkippedStep>& skipped) const {
  std::string message = absl::StrFormat("restore \"%s\": ", dir_);
  if (skipped.size() == 1) {
    absl::StrAppend(&message, "the only step cannot be restored");
  } else {
    absl::StrAppendFormat(&message, "none of the %d steps can be restored",
                          skipped.size());
  }
  for (const SkippedStep& step : skipped) {
    absl::StrAppend(&message, "\n  step ", step.step, ": ",
                    step.status.message());
  }
  return absl::DataLossError(message);
}

// Collective; agreed.
Agreed<> Impl::CheckMatch(int64_t step, const ManagedRestore& restored) const {
  Status matched = values_.CheckMatch(restored, options_.restore_match);
  if (!matched.ok()) {
    matched = Status(
        matched.code(),
        absl::StrFormat("restore \"%s\": %s; %s says how much has to match",
                        StepPath(step), matched.message(),
                        OptionName(&ManagerOptions::restore_match)));
  }
  CommContext context = ManagerContext("restore", false);
  return Agree(context, matched);
}

void Impl::RememberRestore(const ManagedRestore& restored) {
  for (const SkippedStep& skipped : restored.skipped) {
    history_.damaged.push_back(skipped.step);
  }
  is_at_work_ = true;
  goes_on_from_ = restored.step;
  std::vector<int64_t>& damaged = history_.damaged;
  std::sort(damaged.begin(), damaged.end());
  damaged.erase(std::unique(damaged.begin(), damaged.end()), damaged.end());
  if (restored.step) std::erase(damaged, *restored.step);
  history_.counter = StepCounter();
  last_saved_.reset();
  history_.restored.reset();
}

// Returns the newest step that was not skipped.
std::optional<int64_t> Impl::NextToTry(const ManagedRestore& restored) const {
  const std::vector<int64_t>& steps = history_.steps;
  for (size_t i = steps.size(); i-- > 0;) {
    if (std::none_of(restored.skipped.begin(), restored.skipped.end(),
                     [&](const SkippedStep& skipped) {
                       return skipped.step == steps[i];
                     })) {
      return steps[i];
    }
  }
  return std::nullopt;
}

namespace {

void WarnOfSkipped(const std::string& dir, const ManagedRestore& restored) {
  for (const SkippedStep& skipped : restored.skipped) {
    Log(LogLevel::kWarning,
        absl::StrFormat("restore \"%s\": step %d cannot be restored, so step "
                        "%d was restored instead: %s",
                        dir, skipped.step, *restored.step,
                        skipped.status.ToString()));
  }
}

}  // namespace

// Collective; agreed.
Agreed<ManagedRestore> Impl::RestoreNewest(const RestoreOptions& options) {
  ManagedRestore restored;
  while (const std::optional<int64_t> step = NextToTry(restored)) {
    Agreed<ManagedRestore> loaded = values_.Restore(
        StepPath(*step), *step, options_.restore_match, options);
    if (loaded.ok()) {
      BELAY_RETURN_IF_AGREED(CheckMatch(*step, *loaded));
      loaded->skipped = std::move(restored.skipped);
      restored = *std::move(loaded);
      RememberRestore(restored);
      if (values_.comm().rank() == 0) WarnOfSkipped(dir_, restored);
      return restored;
    }
    BELAY_ASSIGN_OR_RETURN_AGREED(const Verdict verdict,
                                  JudgeFailure(*this, *step, loaded.status()));
    if (verdict == Verdict::kOther) return loaded.error();
    if (verdict == Verdict::kDamaged) {
      restored.skipped.push_back({*step, WithoutEarlierStep(loaded.status())});
    } else {
      BELAY_RETURN_IF_AGREED(Reload());
    }
  }
  if (restored.skipped.empty()) return restored;
  return SameOnAllRanks(NothingCanBeRestored(restored.skipped)).error();
}

// Collective.
Agreed<ManagedRestore> Impl::RestoreOne(int64_t step,
                                        const RestoreOptions& options) {
  {
    CommContext context = ManagerContext("restore", true);
    BELAY_RETURN_IF_AGREED(
        OnRoot(context, [&] { return CheckStepIsThere("restore", step); }));
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ManagedRestore restored,
      values_.Restore(StepPath(step), step, options_.restore_match, options));
  BELAY_RETURN_IF_AGREED(CheckMatch(step, restored));
  RememberRestore(restored);
  if (FindLatest(history_) > step) history_.restored = step;
  if (options_.newer_steps != NewerSteps::kRefuse) {
    BELAY_RETURN_IF_AGREED(RollBack(step, restored));
  }
  return restored;
}

std::string ManagedRestore::ToString() const {
  std::string text =
      step ? absl::StrCat("restored step ", *step) : "restored nothing";
  if (result) text = result->ToString();
  for (const SkippedStep& other : skipped) {
    absl::StrAppend(&text, "\nskipped step ", other.step, ": ",
                    other.status.ToString());
  }
  if (!set_aside.empty()) {
    absl::StrAppend(&text, "\nset aside in \"", aside,
                    "\": ", absl::StrJoin(set_aside, ", "));
  }
  if (!deleted.empty()) {
    absl::StrAppend(&text, "\ndeleted: ", absl::StrJoin(deleted, ", "));
  }
  return text;
}

Agreed<ManagedRestore> Impl::Restore(std::optional<int64_t> step,
                                     const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(SettleUnderWay());
  {
    CommContext context = ManagerContext("restore", false);
    BELAY_RETURN_IF_AGREED(AgreeSameText(context, "restore: the step",
                                         step ? absl::StrCat(*step) : "none"));
  }
  const std::optional<double> began = TimeOfRestore();
  if (step) {
    BELAY_ASSIGN_OR_RETURN_AGREED(ManagedRestore restored,
                                  RestoreOne(*step, options));
    if (restored.step) NoteRestore(began);
    return restored;
  }
  BELAY_RETURN_IF_AGREED(ReloadSteps());
  BELAY_ASSIGN_OR_RETURN_AGREED(ManagedRestore restored,
                                RestoreNewest(options));
  if (restored.step) {
    NoteRestore(began);
  } else {
    LogNoStep(ManagerContext("restore", false), dir_);
  }
  return restored;
}

StatusOr<ManagedRestore> CheckpointManager::RestoreLatest(
    const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "restore"));
  return impl_->Restore(std::nullopt, options);
}

StatusOr<ManagedRestore> CheckpointManager::Restore(
    int64_t step, const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "restore"));
  return impl_->Restore(step, options);
}

StatusOr<ManagedRestore> CheckpointManager::RestoreOrInitialize(
    const RestoreOptions& options) {
  BELAY_ASSIGN_OR_RETURN_AGREED(ManagedRestore restored,
                                SameOnAllRanks(RestoreLatest(options)));
  const auto& init_fn = impl_->options_.init_fn;
  if (restored.step || init_fn == nullptr) return restored;
  const Status done = CatchExceptions([&] { return init_fn(); });
  CommContext context = impl_->ManagerContext("initialize", false);
  BELAY_RETURN_IF_AGREED(Agree(context, done));
  return restored;
}

Agreed<std::optional<int64_t>> Impl::WaitForNewStep(
    std::optional<int64_t> after, double timeout_seconds, double poll_seconds) {
  {
    CommContext context = ManagerContext("wait for a step of", false);
    BELAY_RETURN_IF_AGREED(
        Agree(context, CheckWait(timeout_seconds, poll_seconds)));
    WireWriter same;
    same(after, timeout_seconds, poll_seconds);
    BELAY_RETURN_IF_AGREED(AgreeSame(context, "wait for a step: an argument",
                                     Fingerprint(same.bytes())));
  }
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    BELAY_RETURN_IF_AGREED(Reload());
    const std::vector<int64_t>& steps = history_.steps;
    if (!steps.empty() && (!after || steps.back() > *after)) {
      return steps.back();
    }
    CommContext context = ManagerContext("wait for a step of", false);
    BELAY_ASSIGN_OR_RETURN_AGREED(
        const bool is_late,
        ShareFromRoot<bool>(context, [&]() -> StatusOr<bool> {
          return Since(start) >= timeout_seconds;
        }));
    if (is_late) return std::nullopt;
    const double left = std::max(timeout_seconds - Since(start), 0.001);
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(poll_seconds, left)));
  }
}

StatusOr<std::optional<int64_t>> CheckpointManager::WaitForNewStep(
    std::optional<int64_t> after, double timeout_seconds, double poll_seconds) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "wait for a step of"));
  return impl_->WaitForNewStep(after, timeout_seconds, poll_seconds);
}

// Records in the state file that newer steps must be moved or deleted. Returns
// nullopt if no step is newer. Rank 0 only.
StatusOr<std::optional<GoingBack>> Impl::BeginGoingBack(int64_t step) const {
  const std::string& prefix = options_.prefix;
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                         CommittedSteps(dir_, prefix));
  if (NewerThan(step, steps).empty()) return std::nullopt;
  GoingBack plan{.to = step,
                 .deletes = options_.newer_steps == NewerSteps::kDelete};
  BELAY_ASSIGN_OR_RETURN(plan.aside, NextAside(dir_, prefix));
  ManagerState state = state_;
  state.going_back = plan;
  BELAY_RETURN_IF_ERROR(StoreState(state));
  return plan;
}

// Forgets the steps newer than `plan.to`, although they may still be on disk.
void Impl::Leave(GoingBack plan) {
  ForgetNewer(plan.to, state_);
  std::vector<int64_t> steps = history_.steps;
  steps.erase(std::ranges::upper_bound(steps, plan.to), steps.end());
  SetSteps(std::move(steps));
  history_.restored.reset();
  history_.missed.reset();
  failed_ = {};
  state_.going_back = std::move(plan);
}

// Moves or deletes the steps newer than state_.going_back->to. An earlier
// manager may have written going_back. Rank 0 only.
// Errors: those of ReadState, SetAside and WriteState.
StatusOr<AsideOutcome> Impl::FinishGoingBack() const {
  const GoingBack& plan = *state_.going_back;
  AsideOrder order{
      .dir = dir_,
      .prefix = options_.prefix,
      .aside = plan.aside,
      .how = plan.deletes ? NewerSteps::kDelete : NewerSteps::kSetAside,
      .durable = options_.save.durable};
  BELAY_ASSIGN_OR_RETURN(const std::optional<ManagerState> stored,
                         ReadState(dir_, options_.prefix));
  if (stored) {
    for (const StepRecord& record : stored->steps) {
      if (!record.preserved) order.deletable.push_back(record.step);
    }
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                         CommittedSteps(dir_, options_.prefix));
  BELAY_ASSIGN_OR_RETURN(AsideOutcome outcome,
                         SetAside(order, NewerThan(plan.to, steps)));
  ManagerState state = state_;
  state.going_back.reset();
  BELAY_RETURN_IF_ERROR(StoreState(state));
  return outcome;
}

// After a step was restored by its number, moves or deletes newer steps as the
// options specify. If that fails halfway, newer steps are ignored, and the next
// save or manager tries again. Collective; agreed.
// Errors: those of WriteState, FinishGoingBack and NextAside.
Agreed<> Impl::RollBack(int64_t step, ManagedRestore& restored) {
  CommContext context = ManagerContext("go back in", true);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      std::optional<GoingBack> plan,
      ShareFromRoot<std::optional<GoingBack>>(
          context, [&] { return BeginGoingBack(step); }));
  if (!plan) return {};
  Leave(*std::move(plan));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      AsideOutcome outcome,
      ShareFromRoot<AsideOutcome>(context, [&] { return FinishGoingBack(); }));
  if (!outcome.moved.empty()) {
    restored.aside = JoinPath(dir_, state_.going_back->aside);
  }
  restored.set_aside = std::move(outcome.moved);
  restored.deleted = std::move(outcome.deleted);
  for (std::string& note : outcome.notes) notes_.push_back(std::move(note));
  state_.going_back.reset();
  return {};
}

}  // namespace belay
