// Keeping steps: what a manager does once a step is committed.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "io/files/posix_file.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"

namespace belay {
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

StatusOr<KeepOutcome> KeepSteps(CheckpointManager::Impl& impl, int64_t saved,
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
