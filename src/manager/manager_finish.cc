// What follows a commit, including one in the background: records, clocks, and
// the removal of old steps.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/agreed.h"
#include "core/option_table.h"
#include "core/status_macros.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"
#include "pipeline/stages.h"
#include "save/background_save.h"
#include "storage/posix_file.h"

namespace belay {

using Impl = CheckpointManager::Impl;

namespace {

void Insert(int64_t step, std::vector<int64_t>& ascending) {
  if (std::ranges::binary_search(ascending, step)) return;
  ascending.insert(std::lower_bound(ascending.begin(), ascending.end(), step),
                   step);
}

// Returns true if the step has lost its name, so that the rest is debris. Rank
// 0 only.
bool WasRemoved(const std::string& path, const Status& status) {
  if (status.ok()) return true;
  const StatusOr<bool> exists = Exists(path);
  return exists.ok() && !*exists;
}

}  // namespace

void Impl::ForgetFailures() {
  const int64_t missed = std::exchange(failed_, {}).in_a_row;
  if (!history_.missed) return;
  history_.missed.reset();
  notes_.push_back(
      absl::StrCat("saving works again; missed in a row: ", missed));
}

// If the program has gone back, notes that the newer steps of the other branch
// stay.
void Impl::LeaveBranch(int64_t step, ManagedSave& result) {
  SaveHistory& history = history_;
  if (!history.restored) return;
  const std::optional<int64_t> latest = FindLatest(history);
  if (latest && *latest >= step) {
    history.restored = std::max(*history.restored, step);
    return;
  }
  const auto first = std::ranges::upper_bound(history.steps, *history.restored);
  result.notes.push_back(absl::StrFormat(
      "step %d was restored, and the newer steps %s stay before step %d, which "
      "does not go on from them; %s says what happens to them",
      *history.restored, absl::StrJoin(first, history.steps.end(), ", "), step,
      OptionName(&ManagerOptions::newer_steps)));
  history.restored.reset();
}

// Ends the save under way. Collective; agreed.
// Errors: that of the save, if it has failed and this is not tolerated.
Agreed<> Impl::EndUnderWay(Agreed<SaveResult> saved) {
  ManagedSaveUnderWay ended = *std::exchange(under_way_, std::nullopt);
  if (!saved.ok()) {
    ended.attempt.at_files = background_->failed_at_files();
    BELAY_ASSIGN_OR_RETURN_AGREED(ended_,
                                  MissSave(ended.attempt, saved.error()));
    return {};
  }
  ManagedSave result{.outcome = SaveOutcome::kSaved};
  result.result = *std::move(saved);
  if (!ended.note.empty()) result.notes.push_back(ended.note);
  // The program has not waited for the save, so its clocks continue.
  const std::optional<double> last_call = stopping_.last_call;
  const double resting_since = stopping_.resting_since;
  const bool is_save_due = stopping_.is_save_due;
  FinishStep(ended.record, ended.began, ended.attempt.request.counter, true,
             result);
  stopping_.last_call = last_call;
  stopping_.resting_since = resting_since;
  stopping_.is_save_due = is_save_due;
  last_saved_ = result.result;
  LogNotes(result.notes);
  ended_ = std::move(result);
  return {};
}

// Ends the save under way if `ended` has a result or an error. Collective;
// agreed.
Agreed<> Impl::TakeEnd(Agreed<std::optional<SaveResult>> ended) {
  if (!ended.ok()) return EndUnderWay(ended.error());
  if (!*ended) return {};
  return EndUnderWay(**std::move(ended));
}

// Waits for the cleanup after the last commit. Collective; agreed.
Agreed<> Impl::FinishCleanup() {
  if (!std::exchange(is_cleaning_up_, false)) return {};
  CommContext context = ManagerContext("keep steps of", true);
  return OnRoot(context, [&] {
    cleanup_.Finish();
    return absl::OkStatus();
  });
}

// Records a committed step, and removes old steps. `began` is the start of the
// save, as WorkedBy returns it. `counter` is the value of step_counter at the
// call. Collective.
void Impl::FinishStep(const StepRecord& record, double began,
                      std::optional<int64_t> counter, bool in_background,
                      ManagedSave& result) {
  is_at_work_ = true;
  goes_on_from_.reset();
  last_saved_.reset();
  history_.counter = counter;
  ForgetFailures();
  LeaveBranch(record.step, result);
  Insert(record.step, history_.steps);
  std::erase(history_.damaged, record.step);
  PutRecord(record, state_.steps);
  is_cleaning_up_ |= in_background;
  Agreed<KeepOutcome> outcome = KeepSteps(record.step, began, in_background);
  if (!outcome.ok()) {
    // Only the exchange has failed, so read the directory instead.
    result.notes.emplace_back(outcome.status().message());
    static_cast<void>(ReloadSteps());
    return;
  }
  NoteTimes(outcome->times);
  CarryOut(outcome->plan, state_);
  std::vector<int64_t> steps = history_.steps;
  std::erase_if(steps, [&](int64_t step) {
    return std::ranges::binary_search(outcome->plan.remove, step);
  });
  SetSteps(std::move(steps));
  result.deleted = std::move(outcome->plan.remove);
  for (std::string& note : outcome->notes) {
    result.notes.push_back(std::move(note));
  }
}

// Applies the rules as if the save under way were committed.
// Errors: those of DecideSave.
StatusOr<SaveDecision> Impl::DecideNext(const SaveRequest& request) const {
  if (!under_way_) return DecideHere(history_, request);
  SaveHistory history = history_;
  Insert(under_way_->record.step, history.steps);
  std::erase(history.damaged, under_way_->record.step);
  history.counter = under_way_->attempt.request.counter;
  history.missed.reset();
  StatusOr<SaveDecision> decision = DecideHere(history, request);
  // LatestStep() does not return the step yet.
  if (decision.ok() && decision->is_behind &&
      decision->step == under_way_->record.step) {
    decision->is_behind = false;
    decision->reason = absl::StrFormat(
        "step %d is being saved in the background", decision->step);
  }
  return decision;
}

Agreed<> Impl::TakeFlushVote(uint8_t bits) {
  if (!under_way_) return {};
  return TakeEnd(background_->Take(FromWord(bits)));
}

Agreed<> Impl::PollUnderWay() {
  if (!under_way_) return {};
  return TakeEnd(background_->Poll());
}

Agreed<> Impl::WaitForUnderWay() {
  if (!under_way_) return {};
  return TakeEnd(background_->Wait());
}

Agreed<> Impl::WaitBeforeNextSave() {
  if (!under_way_) return {};
  return TakeEnd(background_->WaitBeforeNext());
}

// Waits for the save under way before its step is saved again. Gives that save
// up if the program has not waited for its snapshot. Collective; agreed.
Agreed<> Impl::WaitForSameStep() {
  if (!under_way_ || !background_->is_snapshot_due()) {
    return WaitForUnderWay();
  }
  const int64_t step = under_way_->record.step;
  Agreed<> given_up = WaitBeforeNextSave();
  if (!absl::IsFailedPrecondition(given_up.status())) return given_up;
  notes_.push_back(absl::StrFormat(
      "step %d is saved again: the save in the background was given up, since "
      "the program had not waited for its snapshot",
      step));
  return {};
}

// Waits for the save under way before a restore or a deletion. If that save
// fails, only a note is added. Collective; agreed.
Agreed<> Impl::SettleUnderWay() {
  if (under_way_) {
    Status status = FinishExchange();
    if (under_way_) status.Update(WaitForUnderWay());
    if (!status.ok()) {
      notes_.push_back(
          absl::StrCat("a save in the background failed: ", status.ToString()));
      LogNotes();
    }
  }
  return FinishCleanup();
}

// Adds the result of the last background save, if no call has returned it yet.
void Impl::TellOfEnded(ManagedSave& result) {
  if (!ended_) return;
  ManagedSave ended = *std::exchange(ended_, std::nullopt);
  if (ended.outcome == SaveOutcome::kSaved) {
    result.finished = std::move(ended.result);
  }
  result.deleted.insert(result.deleted.end(), ended.deleted.begin(),
                        ended.deleted.end());
  std::sort(result.deleted.begin(), result.deleted.end());
  result.notes.insert(result.notes.begin(), ended.notes.begin(),
                      ended.notes.end());
  if (!result.failure) result.failure = std::move(ended.failure);
}

Agreed<> Impl::WaitForSnapshot() {
  if (!under_way_) return {};
  Agreed<> copied = background_->WaitForSnapshot();
  return copied.ok() ? copied : EndUnderWay(copied.error());
}

Status CheckpointManager::WaitForSnapshot() {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "wait for a snapshot of"));
  return impl_->WaitForSnapshot();
}

Agreed<std::optional<ManagedSave>> Impl::Wait() {
  if (under_way_) BELAY_RETURN_IF_AGREED(FinishExchange());
  BELAY_RETURN_IF_AGREED(WaitForUnderWay());
  BELAY_RETURN_IF_AGREED(FinishCleanup());
  return std::exchange(ended_, std::nullopt);
}

StatusOr<std::optional<ManagedSave>> CheckpointManager::Wait() {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "wait for a save of"));
  return impl_->Wait();
}

Status CheckpointManager::Close() {
  if (impl_ == nullptr) return absl::OkStatus();
  Status status = CheckMoved(impl_.get(), "close").status();
  if (status.ok()) {
    Agreed<std::optional<ManagedSave>> ended = impl_->Wait();
    status = ended.status();
    // After an error of the last ShouldSave, the save may still be under way
    // and succeed.
    if (impl_->under_way_) ended = impl_->Wait();
    if (ended.ok() && *ended && (*ended)->failure) {
      status.Update(*(*ended)->failure);
    }
    status.Update(ended.status());
  }
  stop_reason_ = impl_->stopping_.reason;
  impl_.reset();
  return status;
}

// Returns the newest managed step that can be restored, among the steps in
// `removed` or, without `is_removed`, among the others. `saved` is known to be
// restorable. Rank 0 only.
std::optional<int64_t> Impl::NewestThatOpens(
    int64_t saved, const std::vector<int64_t>& removed, bool is_removed) const {
  const std::vector<StepRecord>& managed = state_.steps;
  for (size_t i = managed.size(); i-- > 0;) {
    const int64_t step = managed[i].step;
    if (std::ranges::binary_search(removed, step) != is_removed ||
        std::ranges::binary_search(history_.damaged, step)) {
      continue;
    }
    if (step == saved || CheckStepOpens(StepPath(step)).ok()) return step;
  }
  return std::nullopt;
}

// Makes sure that one managed step that can be restored is kept, because
// nothing is known of unmanaged ones. Rank 0 only.
void Impl::KeepOne(int64_t saved, KeepOutcome& outcome) const {
  std::vector<int64_t>& remove = outcome.plan.remove;
  if (!std::ranges::binary_search(remove, saved)) return;
  if (NewestThatOpens(saved, remove, false)) return;
  const std::optional<int64_t> newest = NewestThatOpens(saved, remove, true);
  if (!newest) return;
  std::erase(remove, *newest);
  outcome.notes.push_back(absl::StrFormat(
      "step %d stays: no other managed step that is kept can be restored",
      *newest));
}

// Removes steps as planned. Steps that cannot be removed stay in the state. In
// the background, steps are only renamed, and the paths of the debris are
// returned. Rank 0 only.
std::vector<std::string> Impl::RemoveSteps(bool in_background,
                                           KeepOutcome& outcome) const {
  std::vector<int64_t> removed;
  std::vector<std::string> debris;
  for (const int64_t step : outcome.plan.remove) {
    Status status;
    if (in_background) {
      StatusOr<std::string> left = TakeName(StepPath(step));
      if (left.ok()) debris.push_back(*std::move(left));
      status = left.status();
    } else {
      status = RemoveStep(StepPath(step), options_.save.durable);
    }
    if (WasRemoved(StepPath(step), status)) removed.push_back(step);
    if (!status.ok() && !absl::IsNotFound(status)) {
      outcome.notes.emplace_back(status.message());
    }
  }
  outcome.plan.remove = std::move(removed);
  return debris;
}

// Rank 0 only.
SaveTimes Impl::MeasureSave(double began) const {
  SaveTimes times{.end = began, .restore = stopping_.use.restore};
  if (stopping_.limit) times.notes = stopping_.limit->TakeNotes();
  if (!NeedsTimes()) return times;
  const StatusOr<double> now = Now();
  if (!now.ok()) return times;
  times.end = WorkedBy(*now);
  times.seconds = times.end - began;
  times.cost = EstimateCost(stopping_.loop);
  return times;
}

// Decides which steps to keep, removes the other steps, and writes the state.
// Failures become notes, because the step is already committed. Rank 0 only.
KeepOutcome Impl::AfterCommit(int64_t saved, double began, bool in_background) {
  KeepOutcome outcome;
  outcome.plan.last_preserved = state_.last_preserved;
  const auto note = [&](const Status& status) {
    if (!status.ok()) outcome.notes.emplace_back(status.message());
  };
  cleanup_.Finish();
  outcome.notes = cleanup_.TakeFailures();  // of the last cleanup
  const std::string clock_note =
      NoteOnClock(options_.retention, state_.steps, saved);
  if (!clock_note.empty()) outcome.notes.push_back(clock_note);
  const StatusOr<double> now = Now();
  note(now.status());
  if (now.ok()) {
    // Damaged steps are ignored here, and stay on disk for inspection.
    ManagerState sound = state_;
    std::erase_if(sound.steps, [&](const StepRecord& record) {
      return std::ranges::binary_search(history_.damaged, record.step);
    });
    StatusOr<RetentionPlan> plan = PlanRetention(
        MakePolicy(options_.retention),
        options_.retention.keep_checkpoint_every_n_hours, sound, *now);
    note(plan.status());
    if (plan.ok()) outcome.plan = *std::move(plan);
  }
  KeepOne(saved, outcome);
  std::vector<std::string> debris = RemoveSteps(in_background, outcome);
  ManagerState state = state_;
  CarryOut(outcome.plan, state);
  if (in_background) {
    // Debris is removed first, because the state may need the space.
    cleanup_.Begin(
        [dir = dir_, prefix = options_.prefix, durable = options_.save.durable,
         state = std::move(state), debris = std::move(debris)] {
          Status status;
          if (durable && !debris.empty()) status = SyncDirectory(dir);
          if (status.ok()) {
            for (const std::string& path : debris) {
              status.Update(RemoveTree(path));
            }
          }
          status.Update(WriteState(dir, prefix, state, durable));
          return status;
        },
        options_.save.deadline_seconds);
  } else {
    note(StoreState(state));
  }
  outcome.times = MeasureSave(began);
  return outcome;
}

// Cleans up on rank 0 after a commit. In the background, the cleanup continues
// after the call. Collective; agreed.
Agreed<KeepOutcome> Impl::KeepSteps(int64_t saved, double began,
                                    bool in_background) {
  CommContext context = ManagerContext("keep steps of", true);
  return ShareFromRoot<KeepOutcome>(context, [&]() -> StatusOr<KeepOutcome> {
    return AfterCommit(saved, began, in_background);
  });
}

}  // namespace belay
