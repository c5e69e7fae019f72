// What follows once a step is committed, also in the background.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "async/vote.h"
#include "base/status_macros.h"
#include "manager/manager_impl.h"

namespace belay {
namespace {

using Impl = CheckpointManager::Impl;

void Insert(int64_t step, std::vector<int64_t>& ascending) {
  if (std::ranges::binary_search(ascending, step)) return;
  ascending.insert(std::lower_bound(ascending.begin(), ascending.end(), step),
                   step);
}

// A save has succeeded: no failure counts any more. Local.
void ForgetFailures(Impl& impl) {
  const int64_t missed = std::exchange(impl.failed, {}).in_a_row;
  if (!impl.history.missed) return;
  impl.history.missed.reset();
  impl.notes.push_back(
      absl::StrCat("saving works again; missed in a row: ", missed));
}

// A step was saved after the program has gone back, if it has. Local.
void LeaveBranch(int64_t step, Impl& impl, ManagedSave& result) {
  SaveHistory& history = impl.history;
  if (!history.restored) return;
  const std::optional<int64_t> latest = LatestOf(history);
  if (latest && *latest >= step) {
    history.restored = std::max(*history.restored, step);
    return;
  }
  const auto first = std::ranges::upper_bound(history.steps, *history.restored);
  result.notes.push_back(absl::StrFormat(
      "step %d was restored, and the newer steps %s stay before step %d, which "
      "does not go on from them; ManagerOptions.newer_steps says what "
      "happens to them",
      *history.restored, absl::StrJoin(first, history.steps.end(), ", "),
      step));
  history.restored.reset();
}

// The save under way has ended. Collective; agreed.
Status EndUnderWay(Impl& impl, StatusOr<SaveResult> saved) {
  ManagedSaveUnderWay ended = *std::exchange(impl.under_way, std::nullopt);
  if (!saved.ok()) {
    ended.attempt.at_files = impl.background->failed_at_files();
    BELAY_ASSIGN_OR_RETURN_AGREED(
        impl.ended, MissSave(impl, ended.attempt, saved.status()));
    return absl::OkStatus();
  }
  ManagedSave result{.saved = true};
  result.result = *std::move(saved);
  if (!ended.note.empty()) result.notes.push_back(ended.note);
  // The program has not waited for it: its clocks go on.
  const std::optional<double> last_call = impl.stopping.last_call;
  const double resting_since = impl.stopping.resting_since;
  const bool is_save_due = impl.stopping.is_save_due;
  FinishStep(impl, ended.record, ended.began, ended.attempt.request.counter,
             true, result);
  impl.stopping.last_call = last_call;
  impl.stopping.resting_since = resting_since;
  impl.stopping.is_save_due = is_save_due;
  impl.last_saved = result.result;
  LogNotes(impl, result.notes);
  impl.ended = std::move(result);
  return absl::OkStatus();
}

// The same if it has. Collective; agreed.
Status TakeEnd(Impl& impl, StatusOr<std::optional<SaveResult>> ended) {
  if (!ended.ok()) return EndUnderWay(impl, ended.status());
  if (!*ended) return absl::OkStatus();
  return EndUnderWay(impl, **std::move(ended));
}

// Waits for what follows the last commit in the background. Collective;
// agreed.
Status FinishCleanup(Impl& impl) {
  if (!std::exchange(impl.is_cleaning_up, false)) return absl::OkStatus();
  CommContext context = ManagerContext(impl, "keep steps of", true);
  return OnRoot(context, [&] {
    impl.cleanup.Finish();
    return absl::OkStatus();
  });
}

}  // namespace

void FinishStep(Impl& impl, const StepRecord& record, double began,
                std::optional<int64_t> counter, bool in_background,
                ManagedSave& result) {
  impl.is_at_work = true;
  impl.goes_on_from.reset();
  impl.last_saved.reset();
  impl.history.counter = counter;
  ForgetFailures(impl);
  LeaveBranch(record.step, impl, result);
  Insert(record.step, impl.history.steps);
  std::erase(impl.history.damaged, record.step);
  PutRecord(record, impl.state.steps);
  impl.is_cleaning_up |= in_background;
  StatusOr<KeepOutcome> outcome =
      KeepSteps(impl, record.step, began, in_background);
  if (!outcome.ok()) {
    // Only the ranks could not be told; what is on disk tells them, too.
    result.notes.emplace_back(outcome.status().message());
    ReloadSteps(impl).IgnoreError();
    return;
  }
  NoteTimes(outcome->times, impl);
  CarryOut(outcome->plan, impl.state);
  std::vector<int64_t> steps = impl.history.steps;
  std::erase_if(steps, [&](int64_t step) {
    return std::ranges::binary_search(outcome->plan.remove, step);
  });
  SetSteps(std::move(steps), impl);
  result.deleted = std::move(outcome->plan.remove);
  for (std::string& note : outcome->notes) {
    result.notes.push_back(std::move(note));
  }
}

StatusOr<SaveDecision> DecideNext(const Impl& impl,
                                  const SaveRequest& request) {
  if (!impl.under_way) return DecideHere(impl, request);
  SaveHistory history = impl.history;
  Insert(impl.under_way->record.step, history.steps);
  std::erase(history.damaged, impl.under_way->record.step);
  history.counter = impl.under_way->attempt.request.counter;
  history.missed.reset();
  StatusOr<SaveDecision> decision = DecideHere(impl, history, request);
  // Latest() does not return it yet.
  if (decision.ok() && decision->is_behind &&
      decision->step == impl.under_way->record.step) {
    decision->is_behind = false;
    decision->reason = absl::StrFormat(
        "step %d is being saved in the background", decision->step);
  }
  return decision;
}

Status TakeFlushVote(Impl& impl, uint8_t bits) {
  if (!impl.under_way) return absl::OkStatus();
  return TakeEnd(impl, impl.background->Take(FromWord(bits)));
}

Status PollUnderWay(Impl& impl) {
  if (!impl.under_way) return absl::OkStatus();
  return TakeEnd(impl, impl.background->Poll());
}

Status WaitForUnderWay(Impl& impl) {
  if (!impl.under_way) return absl::OkStatus();
  return TakeEnd(impl, impl.background->Wait());
}

Status WaitBeforeNextSave(Impl& impl) {
  if (!impl.under_way) return absl::OkStatus();
  return TakeEnd(impl, impl.background->WaitBeforeNext());
}

Status WaitForSameStep(Impl& impl) {
  if (!impl.under_way || !impl.background->is_snapshot_due()) {
    return WaitForUnderWay(impl);
  }
  const int64_t step = impl.under_way->record.step;
  const Status given_up = WaitBeforeNextSave(impl);
  if (!absl::IsFailedPrecondition(given_up)) return given_up;
  impl.notes.push_back(absl::StrFormat(
      "step %d is saved again: the save in the background was given up, since "
      "the program had not waited for its snapshot",
      step));
  return absl::OkStatus();
}

Status SettleUnderWay(Impl& impl) {
  if (impl.under_way) {
    Status status = FinishExchange(impl);
    if (impl.under_way) status.Update(WaitForUnderWay(impl));
    if (!status.ok()) {
      impl.notes.push_back(
          absl::StrCat("a save in the background failed: ", status.ToString()));
      LogNotes(impl);
    }
  }
  return FinishCleanup(impl);
}

void TellOfEnded(Impl& impl, ManagedSave& result) {
  if (!impl.ended) return;
  ManagedSave ended = *std::exchange(impl.ended, std::nullopt);
  if (ended.saved) result.finished = std::move(ended.result);
  result.deleted.insert(result.deleted.end(), ended.deleted.begin(),
                        ended.deleted.end());
  std::sort(result.deleted.begin(), result.deleted.end());
  result.notes.insert(result.notes.begin(), ended.notes.begin(),
                      ended.notes.end());
  if (!result.failure) result.failure = std::move(ended.failure);
}

Status CheckpointManager::WaitForSnapshot() {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "wait for a snapshot of"));
  if (!impl_->under_way) return absl::OkStatus();
  const Status status = impl_->background->WaitForSnapshot();
  return status.ok() ? status : EndUnderWay(*impl_, status);
}

StatusOr<std::optional<ManagedSave>> CheckpointManager::WaitUntilFinished() {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "wait for a save of"));
  Impl& impl = *impl_;
  if (impl.under_way) BELAY_RETURN_IF_AGREED(FinishExchange(impl));
  BELAY_RETURN_IF_AGREED(WaitForUnderWay(impl));
  BELAY_RETURN_IF_AGREED(FinishCleanup(impl));
  return std::exchange(impl.ended, std::nullopt);
}

}  // namespace belay
