// Saves and deletes steps, and handles failures of saves.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"
#include "mpi/collective.h"
#include "pipeline/stages.h"
#include "storage/commit.h"
#include "storage/posix_file.h"

namespace belay {

using Impl = CheckpointManager::Impl;

namespace {

// Describes the part of a request that must be equal on all ranks.
std::string DescribeRequest(const SaveRequest& request, bool is_due) {
  std::string text =
      request.step ? absl::StrCat("step ", *request.step) : "no step";
  if (request.counter) absl::StrAppend(&text, ", counter ", *request.counter);
  absl::StrAppend(&text, ", save counter ", request.save_counter);
  if (request.force) absl::StrAppend(&text, ", force");
  if (!is_due) absl::StrAppend(&text, ", not due");
  return text;
}

// A retry waits at least 10 s, and ten times as long as the failed save took,
// so that retries cost at most a tenth of the time.
constexpr double kLeastPause = 10;
constexpr double kPausePerSecond = 10;

// Returns true if a retry may help after a failure of the file system. NotFound
// is included: the directory existed before, so a node may have lost its mount.
bool IsTransient(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsInternal(status) || absl::IsNotFound(status);
}

}  // namespace

std::optional<int64_t> Impl::StepCounter() const {
  if (options_.save_policy.step_counter == nullptr) return std::nullopt;
  return *options_.save_policy.step_counter;
}

SaveRequest Impl::MakeRequest(std::optional<int64_t> step) const {
  return {.step = step,
          .counter = StepCounter(),
          .save_counter = values_.save_counter()};
}

// Applies the rules.
// Errors: those of DecideSave; messages name the directory.
StatusOr<SaveDecision> Impl::DecideHere(const SaveHistory& history,
                                        const SaveRequest& request) const {
  StatusOr<SaveDecision> decision = DecideSave(options_, history, request);
  if (decision.ok()) return decision;
  return Status(
      decision.status().code(),
      absl::StrCat("save \"", dir_, "\": ", decision.status().message()));
}

// Writes the step to the state before it is saved. A step that exists and is
// not managed is not announced, because it must stay unmanaged if this save
// fails. Rank 0 only.
Status Impl::Announce(const std::vector<int64_t>& steps,
                      const StepRecord& record) const {
  ManagerState state = state_;
  PutFailed(steps, state.steps);
  KeepOnly(steps, state.steps);
  const bool is_managed = std::any_of(
      state.steps.begin(), state.steps.end(),
      [&](const StepRecord& other) { return other.step == record.step; });
  if (is_managed || !std::ranges::binary_search(steps, record.step)) {
    state.saving = record;
  }
  return StoreState(state);
}

// Brings the directory up to date before a save, and announces the save. Rank 0
// only.
Status Impl::PrepareFiles(SaveAttempt& attempt, SaveOrder& order) {
  const Deadline watched = WatchFiles("save");
  cleanup_.Finish();  // the step may need the space
  BELAY_RETURN_IF_ERROR(RecoverAfterFailure());
  if (state_.going_back) {
    BELAY_RETURN_IF_ERROR(FinishGoingBack().status());
    state_.going_back.reset();
    order.is_back = true;
  }
  // Somebody may have deleted steps by hand.
  BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> steps, StepsOnDisk());
  attempt.was_there = std::ranges::binary_search(steps, order.decision.step);
  if (!failed_.steps.empty()) {
    // A step may exist although its save seemed to fail.
    BELAY_ASSIGN_OR_RETURN(order.decision,
                           DecideHere(HistoryWith(steps), attempt.request));
  }
  if (order.decision.save) {
    attempt.is_announced = true;
    BELAY_RETURN_IF_ERROR(Announce(steps, order.record));
  }
  if (steps != history_.steps) order.steps = std::move(steps);
  return absl::OkStatus();
}

// Applies the rules. Before refusing a forced save, reads the directory again,
// because somebody may have deleted steps by hand. Rank 0 only.
StatusOr<SaveDecision> Impl::DecideOnRoot(const SaveRequest& request) const {
  StatusOr<SaveDecision> decision = DecideHere(history_, request);
  if (decision.ok() || !request.force) return decision;
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsOnDisk());
  return DecideHere(HistoryWith(steps), request);
}

// Decides whether to save, and prepares the directory. Rank 0 only.
StatusOr<SaveOrder> Impl::Decide(SaveAttempt& attempt,
                                 const std::optional<Metrics>& metrics) {
  SaveOrder order;
  std::string against;
  SaveRequest& request = attempt.request;
  if (IsSavedAlready(request)) {
    // Somebody may have deleted the step by hand.
    BELAY_ASSIGN_OR_RETURN(order.is_saved, Exists(StepPath(*request.step)));
    order.decision.step = *request.step;
    if (order.is_saved) return order;
  }
  BELAY_ASSIGN_OR_RETURN(request.makes_up, IsTimeToMakeUp());
  if (NeedsTimes()) {
    BELAY_ASSIGN_OR_RETURN(const double now, Now());
    BELAY_RETURN_IF_ERROR(AskClock(now, request, against));
  }
  BELAY_ASSIGN_OR_RETURN(order.decision, DecideOnRoot(request));
  WarnIfBehind(order.decision);
  if (order.decision.save && !request.force && !against.empty()) {
    order.decision.save = false;
    order.decision.reason = against;
  }
  if (order.decision.save) {
    BELAY_ASSIGN_OR_RETURN(attempt.began, Now());
    attempt.record = {
        .step = order.decision.step, .time = attempt.began, .metrics = metrics};
    order.record = attempt.record;
    order.began = WorkedBy(attempt.began);
    NoteSave(stopping_.loop);
    attempt.at_files = true;
    BELAY_RETURN_IF_ERROR(PrepareFiles(attempt, order));
  }
  return order;
}

// Collective; agreed.
Agreed<PendingSave> Impl::BeginOrSave(const SaveOrder& order,
                                      const SaveOptions& how,
                                      bool in_background, bool& at_files) {
  const int64_t step = order.decision.step;
  if (in_background) {
    return values_.Begin(*background_, StepPath(step), step, how, at_files);
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      SaveResult saved, values_.Save(StepPath(step), step, how, at_files));
  return PendingSave{.path = saved.path, .step = step, .saved = saved};
}

// Decides on all ranks whether to save. Uses a separate deadline, which does
// not include the save. Collective; agreed.
Agreed<SaveOrder> Impl::Ask(SaveAttempt& attempt,
                            const std::optional<Metrics>& metrics) {
  CommContext context = ManagerContext("save", false);
  BELAY_ASSIGN_OR_RETURN_AGREED(std::optional<SaveDecision> not_due,
                                AgreeIfNotDue(context, attempt.request));
  if (not_due) return SaveOrder{.decision = *std::move(not_due)};
  return ShareFromRoot<SaveOrder>(context,
                                  [&] { return Decide(attempt, metrics); });
}

// Rank 0 only.
Status Impl::CheckDelete(int64_t step) const {
  if (options_.read_only) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "delete \"%s\": the manager is read-only", StepPath(step)));
  }
  return CheckStepIsThere("delete", step);
}

// Notes how long the call of a save took. If the clock fails here, the next
// save reports that. Rank 0 only.
void Impl::NoteCallSince(double began) {
  if (!options_.save_policy.auto_interval) return;
  const StatusOr<double> now = Now();
  if (!now.ok()) return;
  NoteCall(WorkedBy(*now) - began, stopping_.loop);
}

// Saves the step that rank 0 has decided to save. Collective; agreed.
Agreed<ManagedSave> Impl::SaveAsOrdered(const SaveOrder& order,
                                        const SaveOptions& how,
                                        SaveAttempt& attempt) {
  const SaveRequest& request = attempt.request;
  const bool in_background =
      background_ != nullptr && !request.force && !request.is_last;
  attempt.at_files = false;
  Agreed<PendingSave> begun =
      BeginOrSave(order, how, in_background, attempt.at_files);
  if (!begun.ok()) return MissSave(attempt, begun.error());
  if (order.steps) SetSteps(*order.steps);
  const std::string note = NoteOnMetrics(options_.retention, order.record);
  ManagedSave result;
  if (begun->saved) {
    result.outcome = SaveOutcome::kSaved;
    result.result = *std::move(begun->saved);
    stopping_.is_last_save_owed = false;
    if (!note.empty()) result.notes.push_back(note);
    if (!begun->note.empty()) result.notes.push_back(begun->note);
    FinishStep(order.record, order.began, request.counter, false, result);
  } else {
    result.outcome = SaveOutcome::kBegun;
    result.reason = absl::StrFormat("step %d is saved in the background",
                                    order.decision.step);
    under_way_ = {.attempt = attempt,
                  .record = order.record,
                  .began = order.began,
                  .note = note};
    // The clocks of the rules continue while the step is written.
    stopping_.is_save_due = false;
    stopping_.resting_since = order.began;
  }
  if (values_.comm().rank() == 0) NoteCallSince(order.began);
  LogNotes(result.notes);
  TellOfEnded(result);
  return result;
}

// Returns the result for a step that this manager has already saved.
ManagedSave Impl::SavedAlready() {
  stopping_.is_last_save_owed = false;
  ManagedSave result{.outcome = SaveOutcome::kSaved, .result = *last_saved_};
  result.notes.push_back(absl::StrFormat(
      "step %d has the values of the save in the background that began before: "
      "this call took no new ones; to save them, give overwrite or another "
      "step",
      last_saved_->step));
  LogNotes(result.notes);
  TellOfEnded(result);
  return result;
}

// Notes that the last save before a stop is skipped.
void Impl::NoteLeftOut(const SaveRequest& request, const ManagedSave& result) {
  if (!request.is_last) return;
  stopping_.is_last_save_owed = false;
  notes_.push_back(absl::StrCat("the last save before ",
                                stopping_.reason->ToString(),
                                " was left out: ", result.reason));
}

Agreed<ManagedSave> Impl::Save(std::optional<int64_t> step,
                               const ManagedSaveOptions& options) {
  // Take the result of the exchange that the last ShouldSave started.
  BELAY_RETURN_IF_AGREED(FinishExchange());
  SaveAttempt attempt{
      .request = MakeRequest(step),
      .may_fail = options.tolerate_failure.value_or(!options.force)};
  SaveRequest& request = attempt.request;
  std::optional<SaveOptions> own = options.save;
  if (own) ApplyToSave(operators_, *own);
  const SaveOptions& chosen = own ? *own : options_.save;
  request.force = options.force;
  request.overwrite = chosen.overwrite;
  request.is_last = stopping_.reason && stopping_.is_last_save_owed;
  if (under_way_) {
    BELAY_ASSIGN_OR_RETURN_AGREED(std::string reason, WaitIfSaveIsDue(request));
    if (!reason.empty()) {
      ManagedSave result{.reason = std::move(reason)};
      TellOfEnded(result);
      return result;
    }
    // The save that has just ended may have changed the counters.
    const SaveRequest now = MakeRequest(step);
    request.counter = now.counter;
    request.save_counter = now.save_counter;
  }
  const Agreed<SaveOrder> order = Ask(attempt, options.metrics);
  if (!order.ok()) return MissSave(attempt, order.error());
  if (order->is_back) state_.going_back.reset();
  if (order->steps && !failed_.steps.empty()) {
    AdoptFailed(*order->steps);
  }
  if (order->is_saved) return SavedAlready();
  if (!order->decision.save) {
    ManagedSave result{.reason = order->decision.reason};
    NoteLeftOut(request, result);
    TellOfEnded(result);
    return result;
  }
  SaveOptions how = chosen;
  // Among equal names, the most specific one counts.
  Metadata metadata = options.metadata;
  metadata.insert(how.metadata.begin(), how.metadata.end());
  metadata.insert(options_.metadata.begin(), options_.metadata.end());
  how.metadata = std::move(metadata);
  how.overwrite = how.overwrite || order->decision.replaces_damaged;
  return SaveAsOrdered(*order, how, attempt);
}

StatusOr<ManagedSave> CheckpointManager::Save(
    std::optional<int64_t> step, const ManagedSaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "save"));
  return impl_->Save(step, options);
}

std::string ManagedSave::ToString() const {
  std::string text = reason;
  if (outcome == SaveOutcome::kSaved) {
    text = result.ToString();
  } else if (outcome != SaveOutcome::kBegun) {
    text = Cat("not saved: ", reason);
  }
  if (finished) text += Cat("\nin the background: ", finished->ToString());
  if (!deleted.empty()) {
    text += Cat("\ndeleted: ", absl::StrJoin(deleted, ", "));
  }
  for (const std::string& note : notes) {
    if (note != reason) text += Cat("\nnote: ", note);
  }
  return text;
}

Agreed<> Impl::Delete(int64_t step) {
  BELAY_RETURN_IF_AGREED(SettleUnderWay());
  Agreed<> removed;
  {
    CommContext context = ManagerContext("delete a step of", true);
    BELAY_RETURN_IF_AGREED(AgreeSameNumber(context, "delete: the step", step));
    BELAY_RETURN_IF_AGREED(OnRoot(context, [&] { return CheckDelete(step); }));
    removed = OnRoot(context, [&] {
      return RemoveStep(StepPath(step), options_.save.durable);
    });
  }
  // Even after a failure, the step may have lost its name.
  BELAY_RETURN_IF_AGREED(ReloadSteps());
  BELAY_RETURN_IF_AGREED(removed);
  CommContext context = ManagerContext("delete a step of", true);
  return OnRoot(context, [&] { return StoreState(state_); });
}

Status CheckpointManager::Delete(int64_t step) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "delete"));
  return impl_->Delete(step);
}

// Returns true if the caller insists on the step that is under way.
bool Impl::IsUnderWay(const SaveRequest& request) const {
  return under_way_ && request.step == under_way_->record.step &&
         (request.force || request.is_last) && !request.overwrite;
}

// Decides what a call of Save does while another save is under way. Rank 0
// only.
StatusOr<Meanwhile> Impl::DecideMeanwhile(SaveRequest request) const {
  using Action = Meanwhile::Action;
  if (IsUnderWay(request)) return Meanwhile{.action = Action::kWait};
  if (request.force || request.is_last) return Meanwhile();
  Meanwhile meanwhile;
  std::string& against = meanwhile.reason;
  BELAY_ASSIGN_OR_RETURN(request.makes_up, IsTimeToMakeUp());
  if (NeedsTimes()) {
    BELAY_ASSIGN_OR_RETURN(const double now, Now());
    BELAY_RETURN_IF_ERROR(AskClock(now, request, against));
  }
  const StatusOr<SaveDecision> decision = DecideNext(request);
  // An error is reported once the other save has ended.
  if (decision.ok() && !decision->save) against = decision->reason;
  if (!against.empty()) meanwhile.action = Action::kNotYet;
  return meanwhile;
}

// Returns a decision not to save. Returns nullopt if the step is due or only
// rank 0 can decide.
std::optional<SaveDecision> Impl::DecideNotDue(
    const SaveRequest& request) const {
  // Only rank 0 knows the result of should_save, the time, and whether a failed
  // save is to be retried.
  if (request.force || request.is_last || options_.save_policy.should_save ||
      NeedsTimes() || history_.missed || !failed_.steps.empty()) {
    return std::nullopt;
  }
  StatusOr<SaveDecision> decision = DecideNext(request);
  if (!decision.ok() || decision->save) return std::nullopt;
  return *std::move(decision);
}

// Checks that all ranks pass the same request. Returns a decision not to save,
// or nullopt if the step is due or only rank 0 can decide. Collective; agreed.
Agreed<std::optional<SaveDecision>> Impl::AgreeIfNotDue(
    CommContext& context, const SaveRequest& request) {
  std::optional<SaveDecision> not_due = DecideNotDue(request);
  BELAY_RETURN_IF_AGREED(AgreeSameText(context,
                                       "save: the step, step_counter or force",
                                       DescribeRequest(request, !not_due)));
  if (not_due) WarnIfBehind(*not_due);
  return not_due;
}

// With auto_interval, sets request.due_in. Sets `against` to the reason if the
// last save would not end before the time limit. Rank 0 only.
Status Impl::AskClock(double now, SaveRequest& request,
                      std::string& against) const {
  if (options_.save_policy.auto_interval) {
    BELAY_ASSIGN_OR_RETURN(request.due_in, SecondsToNextSave(now));
  }
  if (request.is_last) {
    against = AgainstLastSave(stopping_.use, SecondsLeft(now));
  }
  return absl::OkStatus();
}

// Returns true if the caller insists on the step that this manager last saved
// in the background, and nothing has been restored since.
bool Impl::IsSavedAlready(const SaveRequest& request) const {
  if (!request.force && !request.is_last) return false;
  if (request.overwrite || !last_saved_ || request.step != last_saved_->step) {
    return false;
  }
  return std::ranges::binary_search(history_.steps, *request.step) &&
         !std::ranges::binary_search(history_.damaged, *request.step);
}

// Waits for the save under way if the rules ask for another save or the caller
// insists on the same step. Otherwise polls it, and returns why not to save.
// Collective; agreed.
Agreed<std::string> Impl::WaitIfSaveIsDue(const SaveRequest& request) {
  Meanwhile meanwhile;
  {
    CommContext context = ManagerContext("save", false);
    BELAY_ASSIGN_OR_RETURN_AGREED(std::optional<SaveDecision> not_due,
                                  AgreeIfNotDue(context, request));
    if (not_due) {
      meanwhile = {Meanwhile::Action::kNotYet, std::move(not_due->reason)};
    } else {
      BELAY_ASSIGN_OR_RETURN_AGREED(
          meanwhile, ShareFromRoot<Meanwhile>(
                         context, [&] { return DecideMeanwhile(request); }));
    }
  }
  // The operations below have separate contexts, whose errors name them.
  switch (meanwhile.action) {
    case Meanwhile::Action::kSave:
      BELAY_RETURN_IF_AGREED(WaitBeforeNextSave());
      break;
    case Meanwhile::Action::kWait:
      BELAY_RETURN_IF_AGREED(WaitForSameStep());
      break;
    case Meanwhile::Action::kNotYet:
      BELAY_RETURN_IF_AGREED(PollUnderWay());
      break;
  }
  return std::move(meanwhile.reason);
}

// Notes when to retry. If the clock fails, there is no retry, only the next
// save that the rules ask for. Rank 0 only.
void Impl::NoteTimesOfFailure(double began, bool makes_up) {
  failed_.retry_at = std::numeric_limits<double>::infinity();
  const StatusOr<double> now = Now();
  if (!now.ok()) return;
  const double took = std::max(0.0, *now - began);
  failed_.failed_at = *now;
  failed_.retry_at = *now + std::max(kLeastPause, kPausePerSecond * took);
  const double worked = WorkedBy(*now);
  stopping_.last_call = worked;
  NotePause(stopping_.loop);
  if (!makes_up) stopping_.resting_since = worked;
}

// Returns the result of a tolerated failure. The rules treat the save as done,
// unless it was a retry.
ManagedSave Impl::Missed(const SaveAttempt& attempt, const SaveFailure& failure,
                         const Status& status) {
  ManagedSave result{.outcome = SaveOutcome::kFailed, .failure = status};
  result.reason = absl::StrFormat(
      "the save of step %d failed, which is tolerated (missed %d of at most %d "
      "in a row): %s",
      failure.record.step, failed_.in_a_row, options_.tolerated_failures,
      status.ToString());
  result.notes.push_back(result.reason);
  if (!history_.missed) notes_.push_back(result.reason);
  if (!failure.makes_up || !history_.missed) {
    history_.missed = {.step = failure.record.step,
                       .counter = attempt.request.counter};
  }
  stopping_.is_save_due = false;
  if (values_.comm().rank() == 0) {
    NoteTimesOfFailure(attempt.began, failure.makes_up);
  }
  return result;
}

// Takes back the announcement of a failed save. Returns the error or, if the
// failure is tolerated, the missed save. Collective; agreed.
Agreed<ManagedSave> Impl::MissSave(const SaveAttempt& attempt,
                                   const AgreedError& error) {
  const Status& status = error.status();
  SaveFailure failure;
  {
    CommContext context = ManagerContext("save", true);
    Agreed<SaveFailure> told =
        ShareFromRoot<SaveFailure>(context, [&]() -> StatusOr<SaveFailure> {
          if (attempt.is_announced) StoreState(state_).IgnoreError();
          return SaveFailure{
              .is_tolerable = attempt.at_files && IsTransient(status),
              .makes_up = attempt.request.makes_up,
              .was_there = attempt.was_there,
              .record = attempt.record};
        });
    if (!told.ok()) return error;
    failure = *std::move(told);
  }
  const int64_t tolerated = options_.tolerated_failures;
  if (!failure.is_tolerable || tolerated == 0) return error;
  // If the step turns out to be committed, it is managed.
  if (!failure.was_there) PutRecord(failure.record, failed_.steps);
  if (!attempt.may_fail) return error;
  if (!failure.makes_up) ++failed_.in_a_row;
  if (failed_.in_a_row > tolerated) return error;
  ManagedSave missed = Missed(attempt, failure, status);
  num_logged_ = notes_.size();  // the result has the same note
  LogNotes(missed.notes);
  return missed;
}

// Returns true if a missed save is to be retried now. Rank 0 only.
// Errors: Internal - the clock threw.
StatusOr<bool> Impl::IsTimeToMakeUp() const {
  if (!history_.missed) return false;
  BELAY_ASSIGN_OR_RETURN(const double now, Now());
  // If the clock was put back, the time since the failure is unknown.
  return now >= failed_.retry_at || now < failed_.failed_at;
}

// After a failure, renews the lease, and removes as much debris of failed saves
// as possible. Rank 0 only.
// Errors: those of Lease::Renew.
Status Impl::RecoverAfterFailure() {
  if (failed_.steps.empty() && !history_.missed && !lease_.is_unsure()) {
    return absl::OkStatus();
  }
  BELAY_RETURN_IF_ERROR(lease_.Renew(LeasePath(dir_, options_.prefix)));
  for (const StepRecord& record : failed_.steps) {
    // The next save tries again to remove the rest.
    RemoveAllDebris(StepPath(record.step)).IgnoreError();
  }
  return absl::OkStatus();
}

// Adds the records of failed steps that are in `steps`, that is, committed.
void Impl::PutFailed(const std::vector<int64_t>& steps,
                     std::vector<StepRecord>& records) const {
  for (const StepRecord& record : failed_.steps) {
    if (std::ranges::binary_search(steps, record.step)) {
      PutRecord(record, records);
    }
  }
}

// Adopts failed steps that are in `steps`, that is, committed, and adds notes.
void Impl::AdoptFailed(std::vector<int64_t> steps) {
  history_ = HistoryWith(steps);
  PutFailed(steps, state_.steps);
  std::erase_if(failed_.steps, [&](const StepRecord& record) {
    if (!std::ranges::binary_search(steps, record.step)) return false;
    failed_.in_a_row = 0;
    notes_.push_back(absl::StrFormat(
        "step %d was committed although its save failed", record.step));
    return true;
  });
  SetSteps(std::move(steps));
}

// Returns the history with `steps` as the steps on disk.
SaveHistory Impl::HistoryWith(const std::vector<int64_t>& steps) const {
  SaveHistory history = history_;
  TakeSteps(steps, history);
  if (history.missed &&
      std::ranges::binary_search(steps, history.missed->step)) {
    history.counter = history.missed->counter;
    history.missed.reset();
  }
  return history;
}

}  // namespace belay
