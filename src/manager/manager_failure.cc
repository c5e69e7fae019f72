// Saves that fail on the way to the file system, and what becomes of them.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "format/paths.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"
#include "storage/commit.h"

namespace belay {
namespace {

using Impl = CheckpointManager::Impl;

// Seconds. A try that fails at once is not repeated at once; one that takes
// long costs the training a tenth of its time.
constexpr double kLeastPause = 10;
constexpr double kPausePerSecond = 10;

// Whether trying again may help, if the file system was the cause. What is not
// found was there when the manager was made: a node may have lost sight of it.
bool MayPass(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsInternal(status) || absl::IsNotFound(status);
}

// What rank 0 tells of a failure.
struct Failure {
  bool is_tolerable = false;
  bool makes_up = false;
  bool was_there = false;
  StepRecord record;
};

std::string Encode(const Failure& failure) {
  WireWriter out;
  out.Put(failure.is_tolerable);
  out.Put(failure.makes_up);
  out.Put(failure.was_there);
  PutStepRecord(failure.record, out);
  return out.Take();
}

Failure DecodeFailure(std::string_view bytes) {
  WireReader in(bytes);
  Failure failure;
  failure.is_tolerable = in.Get<bool>();
  failure.makes_up = in.Get<bool>();
  failure.was_there = in.Get<bool>();
  failure.record = GetStepRecord(in);
  return failure;
}

// Where the clock fails, the rules alone ask for the next save. Rank 0 only.
void NoteTimesOfFailure(double began, bool makes_up, Impl& impl) {
  impl.failed.retry_at = std::numeric_limits<double>::infinity();
  const StatusOr<double> now = Now(impl.options);
  if (!now.ok()) return;
  const double took = std::max(0.0, *now - began);
  impl.failed.failed_at = *now;
  impl.failed.retry_at = *now + std::max(kLeastPause, kPausePerSecond * took);
  const double worked = WorkedBy(impl.stopping, *now);
  impl.stopping.last_call = worked;
  NotePause(impl.stopping.loop);
  if (!makes_up) impl.stopping.resting_since = worked;
}

// The state becomes what it was before the save. Rank 0 only.
Failure TakeBack(Impl& impl, const SaveAttempt& attempt, const Status& status) {
  if (attempt.is_announced) WriteStateOf(impl, impl.state).IgnoreError();
  return {.is_tolerable = attempt.at_files && MayPass(status),
          .makes_up = attempt.request.makes_up,
          .was_there = attempt.was_there,
          .record = attempt.record};
}

// For the rules the save was made, but for one that was to make up for another.
ManagedSave Missed(Impl& impl, const SaveAttempt& attempt,
                   const Failure& failure, const Status& status) {
  ManagedSave result{.failure = status};
  result.reason = absl::StrFormat(
      "the save of step %d failed, which is tolerated (missed %d of at most %d "
      "in a row): %s",
      failure.record.step, impl.failed.in_a_row,
      impl.options.tolerated_failures, status.ToString());
  result.notes.push_back(result.reason);
  if (!impl.history.missed) impl.notes.push_back(result.reason);
  if (!failure.makes_up || !impl.history.missed) {
    impl.history.missed = {.step = failure.record.step,
                           .counter = attempt.request.counter};
  }
  impl.stopping.is_save_due = false;
  if (impl.values.comm().rank() == 0) {
    NoteTimesOfFailure(attempt.began, failure.makes_up, impl);
  }
  return result;
}

}  // namespace

Agreed<ManagedSave> MissSave(Impl& impl, const SaveAttempt& attempt,
                             const AgreedError& error) {
  const Status& status = error.status();
  Failure failure;
  {
    CommContext context = ManagerContext(impl, "save", true);
    const Agreed<std::string> bytes =
        FromRoot(context, [&]() -> StatusOr<std::string> {
          return Encode(TakeBack(impl, attempt, status));
        });
    if (!bytes.ok()) return error;
    failure = DecodeFailure(*bytes);
  }
  const int64_t tolerated = impl.options.tolerated_failures;
  if (!failure.is_tolerable || tolerated == 0) return error;
  // Who comes later must not take it for somebody else's.
  if (!failure.was_there) PutRecord(failure.record, impl.failed.steps);
  if (!attempt.may_fail) return error;
  if (!failure.makes_up) ++impl.failed.in_a_row;
  if (impl.failed.in_a_row > tolerated) return error;
  ManagedSave missed = Missed(impl, attempt, failure, status);
  impl.num_logged = impl.notes.size();  // the same note again
  LogNotes(impl, missed.notes);
  return missed;
}

StatusOr<bool> IsTimeToMakeUp(const Impl& impl) {
  if (!impl.history.missed) return false;
  BELAY_ASSIGN_OR_RETURN(const double now, Now(impl.options));
  // A clock that was put back cannot tell how long it has waited.
  return now >= impl.failed.retry_at || now < impl.failed.failed_at;
}

Status ComeBack(Impl& impl) {
  if (impl.failed.steps.empty() && !impl.history.missed &&
      !impl.lease.is_unsure()) {
    return absl::OkStatus();
  }
  BELAY_RETURN_IF_ERROR(
      impl.lease.Renew(LeasePath(impl.dir, impl.options.prefix)));
  for (const StepRecord& record : impl.failed.steps) {
    // What cannot be removed is tried again by the next save.
    RemoveAllDebris(impl.Path(record.step)).IgnoreError();
  }
  return absl::OkStatus();
}

void AdoptFailed(const FailedSaves& failed, const std::vector<int64_t>& steps,
                 std::vector<StepRecord>& records) {
  for (const StepRecord& record : failed.steps) {
    if (std::ranges::binary_search(steps, record.step)) {
      PutRecord(record, records);
    }
  }
}

void AdoptFailed(std::vector<int64_t> steps, Impl& impl) {
  impl.history = HistoryWith(impl, steps);
  AdoptFailed(impl.failed, steps, impl.state.steps);
  std::erase_if(impl.failed.steps, [&](const StepRecord& record) {
    if (!std::ranges::binary_search(steps, record.step)) return false;
    impl.failed.in_a_row = 0;
    impl.notes.push_back(absl::StrFormat(
        "step %d was committed although its save failed", record.step));
    return true;
  });
  SetSteps(std::move(steps), impl);
}

SaveHistory HistoryWith(const Impl& impl, const std::vector<int64_t>& steps) {
  SaveHistory history = impl.history;
  TakeSteps(steps, history);
  if (history.missed &&
      std::ranges::binary_search(steps, history.missed->step)) {
    history.counter = history.missed->counter;
    history.missed.reset();
  }
  return history;
}

// Going back to a step: what is newer gets out of the way.

namespace {

using Impl = CheckpointManager::Impl;

// Those after `step`, ascending.
std::vector<int64_t> NewerThan(int64_t step,
                               const std::vector<int64_t>& steps) {
  return {std::ranges::upper_bound(steps, step), steps.end()};
}

// Writes down what is to be done; nothing if no step is newer. Rank 0 only.
StatusOr<std::optional<GoingBack>> BeginGoingBack(const Impl& impl,
                                                  int64_t step) {
  const std::string& prefix = impl.options.prefix;
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                         CommittedSteps(impl.dir, prefix));
  if (NewerThan(step, steps).empty()) return std::nullopt;
  GoingBack plan{.to = step,
                 .deletes = impl.options.newer_steps == NewerSteps::kDelete};
  BELAY_ASSIGN_OR_RETURN(plan.aside, NextAside(impl.dir, prefix));
  ManagerState state = impl.state;
  state.going_back = plan;
  BELAY_RETURN_IF_ERROR(WriteStateOf(impl, state));
  return plan;
}

std::string Encode(const std::optional<GoingBack>& plan) {
  WireWriter out;
  out.Put(plan.has_value());
  if (!plan) return out.Take();
  out.Put(plan->to);
  out.PutText(plan->aside);
  out.Put(plan->deletes);
  return out.Take();
}

std::optional<GoingBack> DecodePlan(std::string_view bytes) {
  WireReader in(bytes);
  if (!in.Get<bool>()) return std::nullopt;
  GoingBack plan{.to = in.Get<int64_t>()};
  plan.aside = in.GetText();
  plan.deletes = in.Get<bool>();
  return plan;
}

std::string Encode(const AsideOutcome& outcome) {
  WireWriter out;
  PutSteps(outcome.moved, out);
  PutSteps(outcome.deleted, out);
  PutTexts(outcome.notes, out);
  return out.Take();
}

AsideOutcome DecodeAside(std::string_view bytes) {
  WireReader in(bytes);
  AsideOutcome outcome;
  outcome.moved = GetSteps(in);
  outcome.deleted = GetSteps(in);
  outcome.notes = GetTexts(in);
  return outcome;
}

// The newer steps count for nothing from now on, whatever becomes of them.
void Leave(GoingBack plan, Impl& impl) {
  ForgetNewer(plan.to, impl.state);
  std::vector<int64_t> steps = impl.history.steps;
  steps.erase(std::ranges::upper_bound(steps, plan.to), steps.end());
  SetSteps(std::move(steps), impl);
  impl.history.restored.reset();
  impl.history.missed.reset();
  impl.failed = {};
  impl.state.going_back = std::move(plan);
}

}  // namespace

StatusOr<AsideOutcome> FinishGoingBack(const Impl& impl) {
  const GoingBack& plan = *impl.state.going_back;
  AsideOrder order{
      .dir = impl.dir,
      .prefix = impl.options.prefix,
      .aside = plan.aside,
      .how = plan.deletes ? NewerSteps::kDelete : NewerSteps::kSetAside,
      .durable = impl.options.save.durable};
  BELAY_ASSIGN_OR_RETURN(const std::optional<ManagerState> stored,
                         ReadState(impl.dir, impl.options.prefix));
  if (stored) {
    for (const StepRecord& record : stored->steps) {
      if (!record.preserved) order.deletable.push_back(record.step);
    }
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                         CommittedSteps(impl.dir, impl.options.prefix));
  BELAY_ASSIGN_OR_RETURN(AsideOutcome outcome,
                         SetAside(order, NewerThan(plan.to, steps)));
  ManagerState state = impl.state;
  state.going_back.reset();
  BELAY_RETURN_IF_ERROR(WriteStateOf(impl, state));
  return outcome;
}

Agreed<> RollBack(Impl& impl, int64_t step, ManagedRestore& restored) {
  CommContext context = ManagerContext(impl, "go back in", true);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string planned,
      FromRoot(context, [&]() -> StatusOr<std::string> {
        BELAY_ASSIGN_OR_RETURN(const std::optional<GoingBack> plan,
                               BeginGoingBack(impl, step));
        return Encode(plan);
      }));
  std::optional<GoingBack> plan = DecodePlan(planned);
  if (!plan) return {};
  Leave(*std::move(plan), impl);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string done, FromRoot(context, [&]() -> StatusOr<std::string> {
        BELAY_ASSIGN_OR_RETURN(const AsideOutcome outcome,
                               FinishGoingBack(impl));
        return Encode(outcome);
      }));
  AsideOutcome outcome = DecodeAside(done);
  if (!outcome.moved.empty()) {
    restored.aside = JoinPath(impl.dir, impl.state.going_back->aside);
  }
  restored.set_aside = std::move(outcome.moved);
  restored.deleted = std::move(outcome.deleted);
  for (std::string& note : outcome.notes) impl.notes.push_back(std::move(note));
  impl.state.going_back.reset();
  return {};
}

}  // namespace belay
