// Saving and deleting steps.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/fingerprint.h"
#include "base/status_macros.h"
#include "checkpoint/manager_impl.h"
#include "store/manager_files.h"
#include "store/posix_file.h"

namespace belay {
namespace {

using Impl = CheckpointManager::Impl;

void Insert(int64_t step, std::vector<int64_t>& ascending) {
  if (std::ranges::binary_search(ascending, step)) return;
  ascending.insert(std::lower_bound(ascending.begin(), ascending.end(), step),
                   step);
}

// What rank 0 has decided.
struct Order {
  SaveDecision decision;
  // If it saves:
  StepRecord record;
  double began = 0;  // as of WorkedBy
  // The steps that are there, where they are others than all ranks know of.
  std::optional<std::vector<int64_t>> steps;
};

std::string Encode(const Order& order) {
  WireWriter out;
  out.Put(order.decision.save);
  out.Put(order.decision.step);
  out.Put(order.decision.replaces_damaged);
  out.PutText(order.decision.reason);
  out.Put(order.record.time);
  out.Put(order.began);
  out.Put(order.record.metrics.has_value());
  const Metrics metrics = order.record.metrics.value_or(Metrics());
  out.Put<uint64_t>(metrics.size());
  for (const auto& [name, value] : metrics) {
    out.PutText(name);
    out.Put(value);
  }
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
  order.record.step = order.decision.step;
  order.record.time = in.Get<double>();
  order.began = in.Get<double>();
  const bool has_metrics = in.Get<bool>();
  Metrics metrics;
  const auto count = in.Get<uint64_t>();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    const std::string name(in.GetText());
    metrics[name] = in.Get<double>();
  }
  if (has_metrics) order.record.metrics = std::move(metrics);
  if (in.Get<bool>()) order.steps = GetSteps(in);
  return order;
}

// Notes the step before it is saved. One that is there already, as `steps`
// says, and is not managed stays a stranger, whatever becomes of this save.
// Rank 0 only.
Status Announce(const Impl& impl, const std::vector<int64_t>& steps,
                const StepRecord& record) {
  ManagerState state = impl.state;
  KeepOnly(steps, state.steps);
  const bool is_managed = std::any_of(
      state.steps.begin(), state.steps.end(),
      [&](const StepRecord& other) { return other.step == record.step; });
  if (is_managed || !std::ranges::binary_search(steps, record.step)) {
    state.saving = record;
  }
  return WriteStateOf(impl, state);
}

// Whether the clock is against it: a save is not due yet, or the last one would
// not be over before the time limit. Rank 0 only.
Status AskClock(const Impl& impl, double now, SaveRequest& request,
                std::string& against) {
  if (impl.options.auto_interval) {
    BELAY_ASSIGN_OR_RETURN(request.due_in, SecondsToNextSave(impl, now));
  }
  if (request.is_last) {
    against =
        AgainstLastSave(impl.stopping.use, SecondsLeft(impl.stopping, now));
  }
  return absl::OkStatus();
}

// Rank 0 only.
StatusOr<std::string> Decide(const Impl& impl, SaveRequest request,
                             const std::optional<Metrics>& metrics) {
  Order order;
  std::string against;
  if (NeedsTimes(impl.options)) {
    BELAY_ASSIGN_OR_RETURN(const double now, Now(impl.options));
    BELAY_RETURN_IF_ERROR(AskClock(impl, now, request, against));
  }
  BELAY_ASSIGN_OR_RETURN(order.decision, DecideHere(impl, request));
  if (order.decision.save && !request.force && !against.empty()) {
    order.decision.save = false;
    order.decision.reason = against;
  }
  if (order.decision.save) {
    BELAY_ASSIGN_OR_RETURN(const double now, Now(impl.options));
    order.record = {
        .step = order.decision.step, .time = now, .metrics = metrics};
    order.began = WorkedBy(impl.stopping, now);
    // Somebody may have deleted steps by hand.
    BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> steps, StepsOnDisk(impl));
    BELAY_RETURN_IF_ERROR(Announce(impl, steps, order.record));
    if (steps != impl.history.steps) order.steps = std::move(steps);
  }
  return Encode(order);
}

// The rules and the caller agree on whether to save. Collective.
StatusOr<Order> AskRoot(Team& team, const Impl& impl,
                        const SaveRequest& request,
                        const std::optional<Metrics>& metrics) {
  WireWriter same;
  PutOptional(request.step, same);
  PutOptional(request.counter, same);
  same.Put(request.save_counter);
  same.Put(request.force);
  BELAY_RETURN_IF_AGREED(AgreeSame(team,
                                   "save: the step, step_counter or force",
                                   Fingerprint(same.bytes())));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string bytes, FromRoot(team, [&] {
                                  return Decide(impl, request, metrics);
                                }));
  return DecodeOrder(bytes);
}

// Rank 0 only.
Status CheckDelete(const Impl& impl, int64_t step) {
  if (impl.options.read_only) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "delete \"%s\": the manager is read-only", impl.Path(step)));
  }
  return CheckStepIsThere(impl, "delete", step);
}

// The state is what it was before the save. Collective.
void TakeBack(const Impl& impl) {
  Team team = ManagerTeam(impl, "save", true);
  OnRoot(team, [&] { return WriteStateOf(impl, impl.state); }).IgnoreError();
}

// The step is committed: it counts, and others may go. Collective.
void Finish(CheckpointManager& manager, Impl& impl, const Order& order,
            std::optional<int64_t> counter, ManagedSave& result) {
  impl.history.counter = counter;
  if (order.steps) SetSteps(*order.steps, impl);
  Insert(order.decision.step, impl.history.steps);
  std::erase(impl.history.damaged, order.decision.step);
  PutRecord(order.record, impl.state.steps);
  StatusOr<KeepOutcome> outcome =
      KeepSteps(impl, order.decision.step, order.began);
  if (!outcome.ok()) {
    // Only the ranks could not be told; what is on disk tells them, too.
    result.notes.emplace_back(outcome.status().message());
    manager.Reload().IgnoreError();
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

// The last save was not made, and will not be. Local.
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
  SaveRequest request = RequestOf(impl, step);
  request.force = options.force;
  request.is_last = impl.stopping.reason && impl.stopping.is_last_save_owed;
  Order order;
  {
    Team team = ManagerTeam(impl, "save", false);
    BELAY_ASSIGN_OR_RETURN_AGREED(
        order, AskRoot(team, impl, request, options.metrics));
  }
  ManagedSave result{.saved = order.decision.save,
                     .reason = order.decision.reason};
  if (!result.saved) {
    NoteLeftOut(request, result, impl);
    return result;
  }
  SaveOptions how = impl.options.save;
  how.overwrite = how.overwrite || order.decision.replaces_damaged;
  StatusOr<SaveResult> saved =
      impl.checkpoint->SaveAs(impl.Path(order.decision.step), how);
  if (!saved.ok()) {
    TakeBack(impl);
    return saved.status();
  }
  result.result = *std::move(saved);
  impl.stopping.is_last_save_owed = false;
  const std::string note = NoteOnMetrics(impl.options, order.record);
  if (!note.empty()) result.notes.push_back(note);
  Finish(*this, impl, order, request.counter, result);
  return result;
}

Status CheckpointManager::Delete(int64_t step) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "delete"));
  Impl& impl = *impl_;
  Status removed;
  {
    Team team = ManagerTeam(impl, "delete a step of", true);
    BELAY_RETURN_IF_AGREED(
        AgreeSame(team, "delete: the step", static_cast<uint64_t>(step)));
    BELAY_RETURN_IF_AGREED(
        OnRoot(team, [&] { return CheckDelete(impl, step); }));
    removed = OnRoot(team, [&] {
      return RemoveStep(impl.Path(step), impl.options.save.durable);
    });
  }
  // It may have lost its name also if that failed.
  BELAY_RETURN_IF_AGREED(Reload());
  BELAY_RETURN_IF_AGREED(removed);
  Team team = ManagerTeam(impl, "delete a step of", true);
  return OnRoot(team, [&] { return WriteStateOf(impl, impl.state); });
}

}  // namespace belay
