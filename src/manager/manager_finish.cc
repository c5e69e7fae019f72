// What follows once a step is committed, also in the background: records,
// clocks, and old steps that go.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"
#include "save/background_save.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

using Impl = CheckpointManager::Impl;

void Insert(int64_t step, std::vector<int64_t>& ascending) {
  if (std::ranges::binary_search(ascending, step)) return;
  ascending.insert(std::lower_bound(ascending.begin(), ascending.end(), step),
                   step);
}

// A save has succeeded: no failure counts any more.
void ForgetFailures(Impl& impl) {
  const int64_t missed = std::exchange(impl.failed, {}).in_a_row;
  if (!impl.history.missed) return;
  impl.history.missed.reset();
  impl.notes.push_back(
      absl::StrCat("saving works again; missed in a row: ", missed));
}

// A step was saved after the program has gone back, if it has.
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
Agreed<> EndUnderWay(Impl& impl, Agreed<SaveResult> saved) {
  ManagedSaveUnderWay ended = *std::exchange(impl.under_way, std::nullopt);
  if (!saved.ok()) {
    ended.attempt.at_files = impl.background->failed_at_files();
    BELAY_ASSIGN_OR_RETURN_AGREED(impl.ended,
                                  MissSave(impl, ended.attempt, saved.error()));
    return {};
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
  return {};
}

// The same if it has. Collective; agreed.
Agreed<> TakeEnd(Impl& impl, Agreed<std::optional<SaveResult>> ended) {
  if (!ended.ok()) return EndUnderWay(impl, ended.error());
  if (!*ended) return {};
  return EndUnderWay(impl, **std::move(ended));
}

// Waits for what follows the last commit in the background. Collective;
// agreed.
Agreed<> FinishCleanup(Impl& impl) {
  if (!std::exchange(impl.is_cleaning_up, false)) return {};
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
  Agreed<KeepOutcome> outcome =
      KeepSteps(impl, record.step, began, in_background);
  if (!outcome.ok()) {
    // Only the ranks could not be told; what is on disk tells them, too.
    result.notes.emplace_back(outcome.status().message());
    static_cast<void>(ReloadSteps(impl));
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

Agreed<> TakeFlushVote(Impl& impl, uint8_t bits) {
  if (!impl.under_way) return {};
  return TakeEnd(impl, impl.background->Take(FromWord(bits)));
}

Agreed<> PollUnderWay(Impl& impl) {
  if (!impl.under_way) return {};
  return TakeEnd(impl, impl.background->Poll());
}

Agreed<> WaitForUnderWay(Impl& impl) {
  if (!impl.under_way) return {};
  return TakeEnd(impl, impl.background->Wait());
}

Agreed<> WaitBeforeNextSave(Impl& impl) {
  if (!impl.under_way) return {};
  return TakeEnd(impl, impl.background->WaitBeforeNext());
}

Agreed<> WaitForSameStep(Impl& impl) {
  if (!impl.under_way || !impl.background->is_snapshot_due()) {
    return WaitForUnderWay(impl);
  }
  const int64_t step = impl.under_way->record.step;
  Agreed<> given_up = WaitBeforeNextSave(impl);
  if (!absl::IsFailedPrecondition(given_up.status())) return given_up;
  impl.notes.push_back(absl::StrFormat(
      "step %d is saved again: the save in the background was given up, since "
      "the program had not waited for its snapshot",
      step));
  return {};
}

Agreed<> SettleUnderWay(Impl& impl) {
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
  Agreed<> copied = impl_->background->WaitForSnapshot();
  return copied.ok() ? copied : EndUnderWay(*impl_, copied.error());
}

StatusOr<std::optional<ManagedSave>> CheckpointManager::WaitUntilFinished() {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "wait for a save of"));
  Impl& impl = *impl_;
  if (impl.under_way) BELAY_RETURN_IF_AGREED(FinishExchange(impl));
  BELAY_RETURN_IF_AGREED(WaitForUnderWay(impl));
  BELAY_RETURN_IF_AGREED(FinishCleanup(impl));
  return std::exchange(impl.ended, std::nullopt);
}

// Keeping steps: what a manager does once a step is committed.

namespace {

using Impl = CheckpointManager::Impl;

void PutSeconds(std::optional<double> seconds, WireWriter& out) {
  out.Put(seconds.has_value());
  out.Put(seconds.value_or(0));
}

std::optional<double> GetSeconds(WireReader& in) {
  const bool has_value = in.Get<bool>();
  const auto value = in.Get<double>();
  return has_value ? std::optional(value) : std::nullopt;
}

std::string Encode(const KeepOutcome& outcome) {
  WireWriter out;
  const SaveTimes& times = outcome.times;
  out.Put(times.end);
  PutSeconds(times.seconds, out);
  PutSeconds(times.restore, out);
  PutSeconds(times.cost, out);
  PutTexts(times.notes, out);
  PutSteps(outcome.plan.remove, out);
  PutSteps(outcome.plan.preserve, out);
  out.Put(outcome.plan.last_preserved);
  PutTexts(outcome.notes, out);
  return out.Take();
}

KeepOutcome DecodeOutcome(std::string_view bytes) {
  WireReader in(bytes);
  KeepOutcome outcome;
  outcome.times.end = in.Get<double>();
  outcome.times.seconds = GetSeconds(in);
  outcome.times.restore = GetSeconds(in);
  outcome.times.cost = GetSeconds(in);
  outcome.times.notes = GetTexts(in);
  outcome.plan.remove = GetSteps(in);
  outcome.plan.preserve = GetSteps(in);
  outcome.plan.last_preserved = in.Get<double>();
  outcome.notes = GetTexts(in);
  return outcome;
}

// The newest managed step that can be restored, of those that go or of those
// that stay. `saved` is known to be one. Rank 0 only.
std::optional<int64_t> NewestThatOpens(const Impl& impl, int64_t saved,
                                       const std::vector<int64_t>& removed,
                                       bool goes) {
  const std::vector<StepRecord>& managed = impl.state.steps;
  for (size_t i = managed.size(); i-- > 0;) {
    const int64_t step = managed[i].step;
    if (std::ranges::binary_search(removed, step) != goes ||
        std::ranges::binary_search(impl.history.damaged, step)) {
      continue;
    }
    if (step == saved || CheckStepOpens(impl.Path(step)).ok()) return step;
  }
  return std::nullopt;
}

// One managed step that can be restored always stays: what others have saved
// there may be anything. Rank 0 only.
void KeepOne(const Impl& impl, int64_t saved, KeepOutcome& outcome) {
  std::vector<int64_t>& remove = outcome.plan.remove;
  if (!std::ranges::binary_search(remove, saved)) return;
  if (NewestThatOpens(impl, saved, remove, false)) return;
  const std::optional<int64_t> newest =
      NewestThatOpens(impl, saved, remove, true);
  if (!newest) return;
  std::erase(remove, *newest);
  outcome.notes.push_back(absl::StrFormat(
      "step %d stays: no other managed step that is kept can be restored",
      *newest));
}

// Once a step has lost its name, the rest is debris. Rank 0 only.
bool WasRemoved(const std::string& path, const Status& status) {
  if (status.ok()) return true;
  const StatusOr<bool> is_there = Exists(path);
  return is_there.ok() && !*is_there;
}

// Steps that cannot be removed stay in the state. In the background they only
// lose their names here; what is left of them is returned. Rank 0 only.
std::vector<std::string> RemoveSteps(const Impl& impl, bool in_background,
                                     KeepOutcome& outcome) {
  std::vector<int64_t> removed;
  std::vector<std::string> debris;
  for (const int64_t step : outcome.plan.remove) {
    Status status;
    if (in_background) {
      StatusOr<std::string> left = TakeName(impl.Path(step));
      if (left.ok()) debris.push_back(*std::move(left));
      status = left.status();
    } else {
      status = RemoveStep(impl.Path(step), impl.options.save.durable);
    }
    if (WasRemoved(impl.Path(step), status)) removed.push_back(step);
    if (!status.ok() && !absl::IsNotFound(status)) {
      outcome.notes.emplace_back(status.message());
    }
  }
  outcome.plan.remove = std::move(removed);
  return debris;
}

// Rank 0 only.
SaveTimes TimesOf(const Impl& impl, double began) {
  SaveTimes times{.end = began, .restore = impl.stopping.use.restore};
  if (impl.stopping.limit) times.notes = impl.stopping.limit->TakeNotes();
  if (!NeedsTimes(impl.options)) return times;
  const StatusOr<double> now = Now(impl.options);
  if (!now.ok()) return times;
  times.end = WorkedBy(impl.stopping, *now);
  times.seconds = times.end - began;
  times.cost = CostOfSave(impl.stopping.loop);
  return times;
}

// Nothing in here can take the commit back. Rank 0 only.
std::string AfterCommit(Impl& impl, int64_t saved, double began,
                        bool in_background) {
  KeepOutcome outcome;
  outcome.plan.last_preserved = impl.state.last_preserved;
  const auto note = [&](const Status& status) {
    if (!status.ok()) outcome.notes.emplace_back(status.message());
  };
  impl.cleanup.Finish();
  outcome.notes = impl.cleanup.TakeFailures();  // after the last commit
  const std::string clock_note =
      NoteOnClock(impl.options, impl.state.steps, saved);
  if (!clock_note.empty()) outcome.notes.push_back(clock_note);
  const StatusOr<double> now = Now(impl.options);
  note(now.status());
  if (now.ok()) {
    // A step that cannot be restored counts for nothing, and is left to look
    // at.
    ManagerState sound = impl.state;
    std::erase_if(sound.steps, [&](const StepRecord& record) {
      return std::ranges::binary_search(impl.history.damaged, record.step);
    });
    StatusOr<RetentionPlan> plan =
        PlanRetention(PolicyOf(impl.options),
                      impl.options.keep_checkpoint_every_n_hours, sound, *now);
    note(plan.status());
    if (plan.ok()) outcome.plan = *std::move(plan);
  }
  KeepOne(impl, saved, outcome);
  std::vector<std::string> debris = RemoveSteps(impl, in_background, outcome);
  ManagerState state = impl.state;
  CarryOut(outcome.plan, state);
  if (in_background) {
    // Steps that have lost their names go first: the state may need the room.
    impl.cleanup.Begin(
        [dir = impl.dir, prefix = impl.options.prefix,
         durable = impl.options.save.durable, state = std::move(state),
         debris = std::move(debris)] {
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
        impl.options.save.deadline_seconds);
  } else {
    note(WriteStateOf(impl, state));
  }
  outcome.times = TimesOf(impl, began);
  return Encode(outcome);
}

}  // namespace

Agreed<KeepOutcome> KeepSteps(CheckpointManager::Impl& impl, int64_t saved,
                              double began, bool in_background) {
  CommContext context = ManagerContext(impl, "keep steps of", true);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes,
      FromRoot(context, [&]() -> StatusOr<std::string> {
        return AfterCommit(impl, saved, began, in_background);
      }));
  return DecodeOutcome(bytes);
}

}  // namespace belay
