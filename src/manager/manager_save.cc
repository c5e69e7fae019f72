// Saving and deleting steps.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"
#include "mpi/collective.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

using Impl = CheckpointManager::Impl;

// What rank 0 has decided.
struct Order {
  SaveDecision decision;
  // If it saves:
  StepRecord record;
  double began = 0;  // as of WorkedBy
  // The steps that are there, where they are others than all ranks know of.
  std::optional<std::vector<int64_t>> steps;
  // The steps that the manager goes back behind are out of the way.
  bool is_back = false;
  // It does not save, because it has: see IsSavedAlready.
  bool is_saved = false;
};

std::string Encode(const Order& order) {
  WireWriter out;
  out.Put(order.decision.save);
  out.Put(order.decision.step);
  out.Put(order.decision.replaces_damaged);
  out.PutText(order.decision.reason);
  out.Put(order.began);
  PutStepRecord(order.record, out);
  out.Put(order.is_back);
  out.Put(order.is_saved);
  out.Put(order.steps.has_value());
  if (order.steps) PutSteps(*order.steps, out);
  return out.Take();
}

Order DecodeOrder(std::string_view bytes) {
  WireReader in(bytes);
  Order order;
  order.decision.save = in.Get<bool>();
  order.decision.step = in.Get<int64_t>();
  order.decision.replaces_damaged = in.Get<bool>();
  order.decision.reason = in.GetText();
  order.began = in.Get<double>();
  order.record = GetStepRecord(in);
  order.is_back = in.Get<bool>();
  order.is_saved = in.Get<bool>();
  if (in.Get<bool>()) order.steps = GetSteps(in);
  return order;
}

// Notes the step before it is saved. One that is there already, as `steps`
// says, and is not managed stays a stranger, whatever becomes of this save.
// Rank 0 only.
Status Announce(const Impl& impl, const std::vector<int64_t>& steps,
                const StepRecord& record) {
  ManagerState state = impl.state;
  AdoptFailed(impl.failed, steps, state.steps);
  KeepOnly(steps, state.steps);
  const bool is_managed = std::any_of(
      state.steps.begin(), state.steps.end(),
      [&](const StepRecord& other) { return other.step == record.step; });
  if (is_managed || !std::ranges::binary_search(steps, record.step)) {
    state.saving = record;
  }
  return WriteStateOf(impl, state);
}

// Looks at the directory before a save, and says there what will come. Rank 0
// only.
Status PrepareFiles(Impl& impl, SaveAttempt& attempt, Order& order) {
  const Deadline watched = WatchFiles(impl, "save");
  impl.cleanup.Finish();  // there may be no space left for the step before
  BELAY_RETURN_IF_ERROR(ComeBack(impl));
  if (impl.state.going_back) {
    BELAY_RETURN_IF_ERROR(FinishGoingBack(impl).status());
    impl.state.going_back.reset();
    order.is_back = true;
  }
  // Somebody may have deleted steps by hand.
  BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> steps, StepsOnDisk(impl));
  attempt.was_there = std::ranges::binary_search(steps, order.decision.step);
  if (!impl.failed.steps.empty()) {
    // Or a step is there whose save seemed to fail.
    BELAY_ASSIGN_OR_RETURN(
        order.decision,
        DecideHere(impl, HistoryWith(impl, steps), attempt.request));
  }
  if (order.decision.save) {
    attempt.is_announced = true;
    BELAY_RETURN_IF_ERROR(Announce(impl, steps, order.record));
  }
  if (steps != impl.history.steps) order.steps = std::move(steps);
  return absl::OkStatus();
}

// A forced save is not refused for steps that somebody has deleted by hand.
// Rank 0 only.
StatusOr<SaveDecision> DecideOnRoot(const Impl& impl,
                                    const SaveRequest& request) {
  StatusOr<SaveDecision> decision = DecideHere(impl, request);
  if (decision.ok() || !request.force) return decision;
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsOnDisk(impl));
  return DecideHere(impl, HistoryWith(impl, steps), request);
}

// Rank 0 only.
StatusOr<std::string> Decide(Impl& impl, SaveAttempt& attempt,
                             const std::optional<Metrics>& metrics) {
  Order order;
  std::string against;
  SaveRequest& request = attempt.request;
  if (IsSavedAlready(impl, request)) {
    // Unless somebody has deleted it by hand.
    BELAY_ASSIGN_OR_RETURN(order.is_saved, Exists(impl.Path(*request.step)));
    order.decision.step = *request.step;
    if (order.is_saved) return Encode(order);
  }
  BELAY_ASSIGN_OR_RETURN(request.makes_up, IsTimeToMakeUp(impl));
  if (NeedsTimes(impl.options)) {
    BELAY_ASSIGN_OR_RETURN(const double now, Now(impl.options));
    BELAY_RETURN_IF_ERROR(AskClock(impl, now, request, against));
  }
  BELAY_ASSIGN_OR_RETURN(order.decision, DecideOnRoot(impl, request));
  WarnIfBehind(impl, order.decision);
  if (order.decision.save && !request.force && !against.empty()) {
    order.decision.save = false;
    order.decision.reason = against;
  }
  if (order.decision.save) {
    BELAY_ASSIGN_OR_RETURN(attempt.began, Now(impl.options));
    attempt.record = {
        .step = order.decision.step, .time = attempt.began, .metrics = metrics};
    order.record = attempt.record;
    order.began = WorkedBy(impl.stopping, attempt.began);
    NoteSave(impl.stopping.loop);
    attempt.at_files = true;
    BELAY_RETURN_IF_ERROR(PrepareFiles(impl, attempt, order));
  }
  return Encode(order);
}

// Saves in the background as far as that is possible. Collective.
Agreed<PendingSave> BeginOrSave(Impl& impl, const Order& order,
                                const SaveOptions& how, bool in_background,
                                bool& at_files) {
  const int64_t step = order.decision.step;
  if (in_background) {
    return impl.values.Begin(*impl.background, impl.Path(step), step, how,
                             at_files);
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      SaveResult saved, impl.values.Save(impl.Path(step), step, how, at_files));
  return PendingSave{.path = saved.path, .step = step, .saved = saved};
}

// The rules and the caller agree on whether to save. Collective.
Agreed<Order> AskRoot(CommContext& context, Impl& impl, SaveAttempt& attempt,
                      const std::optional<Metrics>& metrics) {
  const SaveRequest& request = attempt.request;
  BELAY_ASSIGN_OR_RETURN_AGREED(std::optional<SaveDecision> not_due,
                                AgreeIfNotDue(context, impl, request));
  if (not_due) return Order{.decision = *std::move(not_due)};
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string bytes, FromRoot(context, [&] {
                                  return Decide(impl, attempt, metrics);
                                }));
  return DecodeOrder(bytes);
}

// Under a deadline of its own, which must not watch the save as well.
// Collective.
Agreed<Order> Ask(Impl& impl, SaveAttempt& attempt,
                  const std::optional<Metrics>& metrics) {
  CommContext context = ManagerContext(impl, "save", false);
  return AskRoot(context, impl, attempt, metrics);
}

// What is said of this step counts before what is said of all.
Metadata MetadataOf(const ManagedSaveOptions& options, const SaveOptions& how,
                    const Impl& impl) {
  Metadata metadata = options.metadata;
  metadata.insert(how.metadata.begin(), how.metadata.end());
  metadata.insert(impl.options.metadata.begin(), impl.options.metadata.end());
  return metadata;
}

// Rank 0 only.
Status CheckDelete(const Impl& impl, int64_t step) {
  if (impl.options.read_only) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "delete \"%s\": the manager is read-only", impl.Path(step)));
  }
  return CheckStepIsThere(impl, "delete", step);
}

// The request as it is once the save before has ended.
SaveRequest RequestAgain(const Impl& impl, const SaveRequest& request) {
  SaveRequest again = RequestOf(impl, request.step);
  again.force = request.force;
  again.overwrite = request.overwrite;
  again.is_last = request.is_last;
  return again;
}

// The clocks of the rules go on while the step is written.
void NoteBegun(double began, Impl& impl) {
  impl.stopping.is_save_due = false;
  impl.stopping.resting_since = began;
}

// The call of a save that began then is about to return. A clock that fails
// fails the next save. Rank 0 only.
void NoteCallSince(double began, Impl& impl) {
  if (!impl.options.auto_interval) return;
  const StatusOr<double> now = Now(impl.options);
  if (!now.ok()) return;
  NoteCall(WorkedBy(impl.stopping, *now) - began, impl.stopping.loop);
}

// Saves what rank 0 has decided to save. Collective; agreed.
Agreed<ManagedSave> SaveAsOrdered(Impl& impl, const Order& order,
                                  const SaveOptions& how,
                                  SaveAttempt& attempt) {
  const SaveRequest& request = attempt.request;
  const bool in_background =
      impl.background != nullptr && !request.force && !request.is_last;
  attempt.at_files = false;
  Agreed<PendingSave> begun =
      BeginOrSave(impl, order, how, in_background, attempt.at_files);
  if (!begun.ok()) return MissSave(impl, attempt, begun.error());
  if (order.steps) SetSteps(*order.steps, impl);
  const std::string note = NoteOnMetrics(impl.options, order.record);
  ManagedSave result{.saved = begun->saved.has_value()};
  if (result.saved) {
    result.result = *std::move(begun->saved);
    impl.stopping.is_last_save_owed = false;
    if (!note.empty()) result.notes.push_back(note);
    if (!begun->note.empty()) result.notes.push_back(begun->note);
    FinishStep(impl, order.record, order.began, request.counter, false, result);
  } else {
    result.begun = true;
    result.reason = absl::StrFormat("step %d is saved in the background",
                                    order.decision.step);
    impl.under_way = {.attempt = attempt,
                      .record = order.record,
                      .began = order.began,
                      .note = note};
    NoteBegun(order.began, impl);
  }
  if (impl.values.comm().rank() == 0) NoteCallSince(order.began, impl);
  LogNotes(impl, result.notes);
  TellOfEnded(impl, result);
  return result;
}

// The step that the caller insists on is there: this manager has saved it.
ManagedSave SavedAlready(Impl& impl) {
  impl.stopping.is_last_save_owed = false;
  ManagedSave result{.saved = true, .result = *impl.last_saved};
  result.notes.push_back(absl::StrFormat(
      "step %d has the values of the save in the background that began before: "
      "this call took no new ones; to save them, give overwrite or another "
      "step",
      impl.last_saved->step));
  LogNotes(impl, result.notes);
  TellOfEnded(impl, result);
  return result;
}

// The last save was not made, and will not be.
void NoteLeftOut(const SaveRequest& request, const ManagedSave& result,
                 Impl& impl) {
  if (!request.is_last) return;
  impl.stopping.is_last_save_owed = false;
  impl.notes.push_back(absl::StrCat("the last save before ",
                                    impl.stopping.reason->ToString(),
                                    " was left out: ", result.reason));
}

}  // namespace

StatusOr<ManagedSave> CheckpointManager::Save(
    std::optional<int64_t> step, const ManagedSaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "save"));
  Impl& impl = *impl_;
  // What ranks have told each other at the last ShouldSave counts here.
  BELAY_RETURN_IF_AGREED(FinishExchange(impl));
  SaveAttempt attempt{
      .request = RequestOf(impl, step),
      .may_fail = options.tolerate_failure.value_or(!options.force)};
  SaveRequest& request = attempt.request;
  const SaveOptions& chosen = options.save ? *options.save : impl.options.save;
  request.force = options.force;
  request.overwrite = chosen.overwrite;
  request.is_last = impl.stopping.reason && impl.stopping.is_last_save_owed;
  if (impl.under_way) {
    BELAY_ASSIGN_OR_RETURN_AGREED(std::string reason,
                                  WaitIfSaveIsDue(impl, request));
    if (!reason.empty()) {
      ManagedSave result{.reason = std::move(reason)};
      TellOfEnded(impl, result);
      return result;
    }
    request = RequestAgain(impl, request);
  }
  const Agreed<Order> order = Ask(impl, attempt, options.metrics);
  if (!order.ok()) return MissSave(impl, attempt, order.error());
  if (order->is_back) impl.state.going_back.reset();
  if (order->steps && !impl.failed.steps.empty()) {
    AdoptFailed(*order->steps, impl);
  }
  if (order->is_saved) return SavedAlready(impl);
  if (!order->decision.save) {
    ManagedSave result{.reason = order->decision.reason};
    NoteLeftOut(request, result, impl);
    TellOfEnded(impl, result);
    return result;
  }
  SaveOptions how = chosen;
  ApplyToSave(impl.operators, how);
  how.metadata = MetadataOf(options, how, impl);
  how.overwrite = how.overwrite || order->decision.replaces_damaged;
  return SaveAsOrdered(impl, *order, how, attempt);
}

std::string ManagedSave::ToString() const {
  std::string text = reason;
  if (saved) text = result.ToString();
  if (!saved && !begun) text = Cat("not saved: ", reason);
  if (finished) text += Cat("\nin the background: ", finished->ToString());
  if (!deleted.empty()) {
    text += Cat("\ndeleted: ", absl::StrJoin(deleted, ", "));
  }
  for (const std::string& note : notes) {
    if (note != reason) text += Cat("\nnote: ", note);
  }
  return text;
}

Status CheckpointManager::Delete(int64_t step) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "delete"));
  Impl& impl = *impl_;
  BELAY_RETURN_IF_AGREED(SettleUnderWay(impl));
  Agreed<> removed;
  {
    CommContext context = ManagerContext(impl, "delete a step of", true);
    BELAY_RETURN_IF_AGREED(AgreeSameNumber(context, "delete: the step", step));
    BELAY_RETURN_IF_AGREED(
        OnRoot(context, [&] { return CheckDelete(impl, step); }));
    removed = OnRoot(context, [&] {
      return RemoveStep(impl.Path(step), impl.options.save.durable);
    });
  }
  // It may have lost its name also if that failed.
  BELAY_RETURN_IF_AGREED(ReloadSteps(impl));
  BELAY_RETURN_IF_AGREED(removed);
  CommContext context = ManagerContext(impl, "delete a step of", true);
  return OnRoot(context, [&] { return WriteStateOf(impl, impl.state); });
}

// A call of Save while another save is under way, or for the step that was
// saved last.

namespace {

using Impl = CheckpointManager::Impl;

// What becomes of a call while another save is under way.
enum class Meanwhile : uint8_t {
  kSave,  // once that has ended
  kWait,  // for that: it is the same step
  kNotYet,
};
using Decided = std::pair<Meanwhile, std::string>;

// Whether the caller insists on a step that is being saved in the background.
bool IsUnderWay(const Impl& impl, const SaveRequest& request) {
  return impl.under_way && request.step == impl.under_way->record.step &&
         (request.force || request.is_last) && !request.overwrite;
}

// Decides that, and says why not yet. Rank 0 only.
StatusOr<Decided> DecideMeanwhile(const Impl& impl, SaveRequest request) {
  if (IsUnderWay(impl, request)) return Decided(Meanwhile::kWait, "");
  if (request.force || request.is_last) return Decided(Meanwhile::kSave, "");
  std::string against;
  BELAY_ASSIGN_OR_RETURN(request.makes_up, IsTimeToMakeUp(impl));
  if (NeedsTimes(impl.options)) {
    BELAY_ASSIGN_OR_RETURN(const double now, Now(impl.options));
    BELAY_RETURN_IF_ERROR(AskClock(impl, now, request, against));
  }
  const StatusOr<SaveDecision> decision = DecideNext(impl, request);
  // A mistake is told once nothing is under way.
  if (decision.ok() && !decision->save) against = decision->reason;
  return Decided(against.empty() ? Meanwhile::kSave : Meanwhile::kNotYet,
                 against);
}

// Returns nothing if the step is due, or if this rank cannot say.
std::optional<SaveDecision> DecideNotDue(const Impl& impl,
                                         const SaveRequest& request) {
  // What rank 0 alone knows: what the program's function says, the time, and
  // whether a save that has failed is to be made up for by now.
  if (request.force || request.is_last || impl.options.should_save ||
      NeedsTimes(impl.options) || impl.history.missed ||
      !impl.failed.steps.empty()) {
    return std::nullopt;
  }
  StatusOr<SaveDecision> decision = DecideNext(impl, request);
  if (!decision.ok() || decision->save) return std::nullopt;
  return *std::move(decision);
}

// What all ranks have to pass alike, or find out alike.
std::string TextOf(const SaveRequest& request, bool is_due) {
  std::string text =
      request.step ? absl::StrCat("step ", *request.step) : "no step";
  if (request.counter) absl::StrAppend(&text, ", counter ", *request.counter);
  absl::StrAppend(&text, ", save counter ", request.save_counter);
  if (request.force) absl::StrAppend(&text, ", force");
  if (!is_due) absl::StrAppend(&text, ", not due");
  return text;
}

}  // namespace

Agreed<std::optional<SaveDecision>> AgreeIfNotDue(CommContext& context,
                                                  Impl& impl,
                                                  const SaveRequest& request) {
  std::optional<SaveDecision> not_due = DecideNotDue(impl, request);
  BELAY_RETURN_IF_AGREED(AgreeSameText(context,
                                       "save: the step, step_counter or force",
                                       TextOf(request, !not_due)));
  if (not_due) WarnIfBehind(impl, *not_due);
  return not_due;
}

Status AskClock(const Impl& impl, double now, SaveRequest& request,
                std::string& against) {
  if (impl.options.auto_interval) {
    BELAY_ASSIGN_OR_RETURN(request.due_in, SecondsToNextSave(impl, now));
  }
  if (request.is_last) {
    against = AgainstLastSave(impl.stopping.use, SecondsLeft(impl, now));
  }
  return absl::OkStatus();
}

bool IsSavedAlready(const Impl& impl, const SaveRequest& request) {
  if (!request.force && !request.is_last) return false;
  if (request.overwrite || !impl.last_saved ||
      request.step != impl.last_saved->step) {
    return false;
  }
  const SaveHistory& history = impl.history;
  return std::ranges::binary_search(history.steps, *request.step) &&
         !std::ranges::binary_search(history.damaged, *request.step);
}

Agreed<std::string> WaitIfSaveIsDue(Impl& impl, const SaveRequest& request) {
  std::optional<SaveDecision> not_due;
  std::string bytes;
  {
    CommContext context = ManagerContext(impl, "save", false);
    BELAY_ASSIGN_OR_RETURN_AGREED(not_due,
                                  AgreeIfNotDue(context, impl, request));
    if (!not_due) {
      BELAY_ASSIGN_OR_RETURN_AGREED(
          bytes, FromRoot(context, [&]() -> StatusOr<std::string> {
            BELAY_ASSIGN_OR_RETURN(const Decided decided,
                                   DecideMeanwhile(impl, request));
            WireWriter out;
            out.Put(decided.first);
            out.PutText(decided.second);
            return out.Take();
          }));
    }
  }
  // A poll has a context of its own, so that its errors say what it did.
  if (not_due) {
    BELAY_RETURN_IF_AGREED(PollUnderWay(impl));
    return not_due->reason;
  }
  WireReader in(bytes);
  const auto meanwhile = in.Get<Meanwhile>();
  switch (meanwhile) {
    case Meanwhile::kSave:
      BELAY_RETURN_IF_AGREED(WaitBeforeNextSave(impl));
      break;
    case Meanwhile::kWait:
      BELAY_RETURN_IF_AGREED(WaitForSameStep(impl));
      break;
    case Meanwhile::kNotYet:
      BELAY_RETURN_IF_AGREED(PollUnderWay(impl));
      break;
  }
  return std::string(in.GetText());
}

}  // namespace belay
