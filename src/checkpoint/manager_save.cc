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

bool Contains(const std::vector<int64_t>& ascending, int64_t step) {
  return std::binary_search(ascending.begin(), ascending.end(), step);
}

void Insert(int64_t step, std::vector<int64_t>& ascending) {
  if (Contains(ascending, step)) return;
  ascending.insert(std::lower_bound(ascending.begin(), ascending.end(), step),
                   step);
}

// Rank 0 only.
Status Write(const Impl& impl, const ManagerState& state) {
  return WriteState(impl.dir, impl.options.prefix, state,
                    impl.options.save.durable);
}

// What rank 0 has decided.
struct Order {
  SaveDecision decision;
  StepRecord record;  // if it saves
};

std::string Encode(const Order& order) {
  WireWriter out;
  out.Put(order.decision.save);
  out.Put(order.decision.step);
  out.Put(order.decision.replaces_damaged);
  out.PutText(order.decision.reason);
  out.Put(order.record.time);
  out.Put(order.record.metrics.has_value());
  const Metrics metrics = order.record.metrics.value_or(Metrics());
  out.Put<uint64_t>(metrics.size());
  for (const auto& [name, value] : metrics) {
    out.PutText(name);
    out.Put(value);
  }
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
  const bool has_metrics = in.Get<bool>();
  Metrics metrics;
  const auto count = in.Get<uint64_t>();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    const std::string name(in.GetText());
    metrics[name] = in.Get<double>();
  }
  if (has_metrics) order.record.metrics = std::move(metrics);
  return order;
}

// Notes the step before it is saved. One that is there already and is not
// managed stays a stranger, whatever becomes of this save. Rank 0 only.
Status Announce(const Impl& impl, const StepRecord& record) {
  ManagerState state = impl.state;
  const bool is_managed = std::any_of(
      state.steps.begin(), state.steps.end(),
      [&](const StepRecord& other) { return other.step == record.step; });
  if (is_managed || !Contains(impl.history.steps, record.step)) {
    state.saving = record;
  }
  return Write(impl, state);
}

// Rank 0 only.
StatusOr<std::string> Decide(const Impl& impl, const SaveRequest& request,
                             const std::optional<Metrics>& metrics) {
  Order order;
  BELAY_ASSIGN_OR_RETURN(order.decision, DecideHere(impl, request));
  if (order.decision.save) {
    BELAY_ASSIGN_OR_RETURN(const double now, Now(impl.options));
    order.record = {
        .step = order.decision.step, .time = now, .metrics = metrics};
    BELAY_RETURN_IF_ERROR(Announce(impl, order.record));
  }
  return Encode(order);
}

// What rank 0 did after the commit.
struct Outcome {
  RetentionPlan plan;
  std::vector<std::string> notes;
};

std::string Encode(const Outcome& outcome) {
  WireWriter out;
  PutSteps(outcome.plan.remove, out);
  PutSteps(outcome.plan.preserve, out);
  out.Put(outcome.plan.last_preserved);
  PutTexts(outcome.notes, out);
  return out.Take();
}

Outcome DecodeOutcome(std::string_view bytes) {
  WireReader in(bytes);
  Outcome outcome;
  outcome.plan.remove = GetSteps(in);
  outcome.plan.preserve = GetSteps(in);
  outcome.plan.last_preserved = in.Get<double>();
  outcome.notes = GetTexts(in);
  return outcome;
}

// Whether a step that is kept can be restored. Rank 0 only.
bool AnyOpens(const Impl& impl, const std::vector<int64_t>& removed) {
  const std::vector<int64_t>& steps = impl.history.steps;
  for (size_t i = steps.size(); i-- > 0;) {
    if (Contains(removed, steps[i]) ||
        Contains(impl.history.damaged, steps[i])) {
      continue;
    }
    if (CheckStepOpens(impl.Path(steps[i])).ok()) return true;
  }
  return false;
}

// One step that can be restored always stays. `saved` is one. Rank 0 only.
void KeepOne(const Impl& impl, int64_t saved, Outcome& outcome) {
  std::vector<int64_t>& remove = outcome.plan.remove;
  if (!Contains(remove, saved) || AnyOpens(impl, remove)) return;
  std::erase(remove, saved);
  outcome.notes.push_back(absl::StrFormat(
      "step %d stays: no other step that is kept can be restored", saved));
}

// Once a step has lost its name, the rest is debris. Rank 0 only.
bool WasRemoved(const std::string& path, const Status& status) {
  if (status.ok()) return true;
  const StatusOr<bool> is_there = Exists(path);
  return is_there.ok() && !*is_there;
}

// Steps that cannot be removed stay in the state. Rank 0 only.
void RemoveSteps(const Impl& impl, Outcome& outcome) {
  std::vector<int64_t> removed;
  for (const int64_t step : outcome.plan.remove) {
    const Status status =
        RemoveStep(impl.Path(step), impl.options.save.durable);
    if (WasRemoved(impl.Path(step), status)) removed.push_back(step);
    if (!status.ok() && !absl::IsNotFound(status)) {
      outcome.notes.emplace_back(status.message());
    }
  }
  outcome.plan.remove = std::move(removed);
}

// Nothing in here can take the commit back. Rank 0 only.
std::string AfterCommit(const Impl& impl, int64_t saved) {
  Outcome outcome;
  outcome.plan.last_preserved = impl.state.last_preserved;
  const auto note = [&](const Status& status) {
    if (!status.ok()) outcome.notes.emplace_back(status.message());
  };
  const StatusOr<double> now = Now(impl.options);
  note(now.status());
  if (now.ok()) {
    // A step that cannot be restored counts for nothing, and is left to look
    // at.
    ManagerState sound = impl.state;
    std::erase_if(sound.steps, [&](const StepRecord& record) {
      return Contains(impl.history.damaged, record.step);
    });
    StatusOr<RetentionPlan> plan =
        PlanRetention(PolicyOf(impl.options),
                      impl.options.keep_checkpoint_every_n_hours, sound, *now);
    note(plan.status());
    if (plan.ok()) outcome.plan = *std::move(plan);
  }
  KeepOne(impl, saved, outcome);
  RemoveSteps(impl, outcome);
  ManagerState state = impl.state;
  CarryOut(outcome.plan, state);
  note(Write(impl, state));
  return Encode(outcome);
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
  BELAY_ASSIGN_OR_RETURN(const bool is_there, Exists(impl.Path(step)));
  if (is_there) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrFormat("delete \"%s\": no such step", impl.Path(step)));
}

// The state is what it was before the save. Collective.
void TakeBack(const Impl& impl) {
  Team team = ManagerTeam(impl, "save", true);
  OnRoot(team, [&] { return Write(impl, impl.state); }).IgnoreError();
}

// Lets rank 0 remove what need not be kept. Collective; agreed.
StatusOr<Outcome> KeepSteps(Impl& impl, int64_t saved) {
  Team team = ManagerTeam(impl, "keep steps of", true);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string bytes,
                                FromRoot(team, [&]() -> StatusOr<std::string> {
                                  return AfterCommit(impl, saved);
                                }));
  return DecodeOutcome(bytes);
}

// The step is committed: it counts, and others may go. Collective.
void Finish(CheckpointManager& manager, Impl& impl, const Order& order,
            std::optional<int64_t> counter, ManagedSave& result) {
  impl.history.counter = counter;
  Insert(order.decision.step, impl.history.steps);
  std::erase(impl.history.damaged, order.decision.step);
  PutRecord(order.record, impl.state.steps);
  StatusOr<Outcome> outcome = KeepSteps(impl, order.decision.step);
  if (!outcome.ok()) {
    // Only the ranks could not be told; what is on disk tells them, too.
    result.notes.emplace_back(outcome.status().message());
    manager.Reload().IgnoreError();
    return;
  }
  CarryOut(outcome->plan, impl.state);
  std::vector<int64_t> steps = impl.history.steps;
  std::erase_if(steps, [&](int64_t step) {
    return Contains(outcome->plan.remove, step);
  });
  SetSteps(std::move(steps), impl);
  result.deleted = std::move(outcome->plan.remove);
  for (std::string& note : outcome->notes) {
    result.notes.push_back(std::move(note));
  }
}

}  // namespace

StatusOr<ManagedSave> CheckpointManager::Save(
    std::optional<int64_t> step, const ManagedSaveOptions& options) {
  Impl& impl = *impl_;
  const SaveRequest request{.step = step,
                            .counter = CounterOf(impl.options),
                            .save_counter = impl.checkpoint->save_counter(),
                            .force = options.force};
  Order order;
  {
    Team team = ManagerTeam(impl, "save", false);
    BELAY_ASSIGN_OR_RETURN_AGREED(
        order, AskRoot(team, impl, request, options.metrics));
  }
  ManagedSave result{.saved = order.decision.save,
                     .reason = order.decision.reason};
  if (!result.saved) return result;
  SaveOptions how = impl.options.save;
  how.overwrite = how.overwrite || order.decision.replaces_damaged;
  StatusOr<SaveResult> saved =
      impl.checkpoint->SaveAs(impl.Path(order.decision.step), how);
  if (!saved.ok()) {
    TakeBack(impl);
    return saved.status();
  }
  result.result = *std::move(saved);
  const std::string note = NoteOnMetrics(impl.options, order.record);
  if (!note.empty()) result.notes.push_back(note);
  Finish(*this, impl, order, request.counter, result);
  return result;
}

Status CheckpointManager::Delete(int64_t step) {
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
  return OnRoot(team, [&] { return Write(impl, impl.state); });
}

}  // namespace belay
