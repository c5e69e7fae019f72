// A call of Save while another save is under way, or for the step that was
// saved last.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "manager/manager_impl.h"
#include "mpi/agree_same.h"

namespace belay {
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

// Returns nothing if the step is due, or if this rank cannot say. Local.
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

StatusOr<std::optional<SaveDecision>> AgreeIfNotDue(
    CommContext& context, Impl& impl, const SaveRequest& request) {
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

StatusOr<std::string> WaitIfSaveIsDue(Impl& impl, const SaveRequest& request) {
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
