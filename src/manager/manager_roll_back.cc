// Going back to a step: what is newer gets out of the way.

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "format/paths.h"
#include "io/steps/commit.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"
#include "manager/set_aside.h"

namespace belay {
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
// Local.
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

Status RollBack(Impl& impl, int64_t step, ManagedRestore& restored) {
  CommContext context = ManagerContext(impl, "go back in", true);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string planned,
      FromRoot(context, [&]() -> StatusOr<std::string> {
        BELAY_ASSIGN_OR_RETURN(const std::optional<GoingBack> plan,
                               BeginGoingBack(impl, step));
        return Encode(plan);
      }));
  std::optional<GoingBack> plan = DecodePlan(planned);
  if (!plan) return absl::OkStatus();
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
  return absl::OkStatus();
}

}  // namespace belay
