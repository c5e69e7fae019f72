#include "manager/rules/manager_state.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/close_keys.h"
#include "base/status_macros.h"

namespace belay {
namespace {

std::string NumberText(int64_t step) {
  return absl::StrFormat("step %d", step);
}

// After a crash, a step may be committed that the state only announces.
void Adopt(const std::vector<int64_t>& committed, RecoveredState& recovered) {
  std::optional<StepRecord>& saving = recovered.state.saving;
  if (!saving) return;
  if (std::ranges::binary_search(committed, saving->step)) {
    recovered.notes.push_back(
        NumberText(saving->step) +
        " was committed by a job that ended before it could write that down; "
        "it is managed now");
    PutRecord(*std::move(saving), recovered.state.steps);
  }
  saving.reset();
}

}  // namespace

void PutRecord(StepRecord record, std::vector<StepRecord>& steps) {
  const auto place = std::lower_bound(
      steps.begin(), steps.end(), record.step,
      [](const StepRecord& a, int64_t step) { return a.step < step; });
  if (place != steps.end() && place->step == record.step) {
    *place = std::move(record);
  } else {
    steps.insert(place, std::move(record));
  }
}

void KeepOnly(const std::vector<int64_t>& steps,
              std::vector<StepRecord>& records) {
  std::erase_if(records, [&](const StepRecord& record) {
    return !std::ranges::binary_search(steps, record.step);
  });
}

void ForgetNewer(int64_t step, ManagerState& state) {
  const auto is_newer = [&](const StepRecord& record) {
    return record.step > step;
  };
  if (std::none_of(state.steps.begin(), state.steps.end(), is_newer)) return;
  std::erase_if(state.steps, is_newer);
  if (state.steps.empty()) return;
  // Earlier than whatever is not preserved.
  double last = state.steps.front().time - 1;
  for (const StepRecord& record : state.steps) {
    if (record.preserved) last = std::max(last, record.time);
  }
  state.last_preserved = std::min(state.last_preserved, last);
}

RecoveredState RecoverState(std::optional<ManagerState> stored,
                            const std::vector<int64_t>& committed, double now) {
  RecoveredState recovered;
  ManagerState& state = recovered.state;
  if (!stored) {
    // Earlier than whatever is saved from now on.
    state.last_preserved = now - 1;
    return recovered;
  }
  state = *std::move(stored);
  if (state.going_back) ForgetNewer(state.going_back->to, state);
  Adopt(committed, recovered);
  KeepOnly(committed, state.steps);
  if (now < state.last_preserved) {
    recovered.notes.push_back(absl::StrFormat(
        "the clock is behind the last preserved step (need at least %.0f, "
        "found %.0f); the steps that are there will not be deleted",
        state.last_preserved, now));
    state.last_preserved = now;
  }
  for (StepRecord& record : state.steps) {
    if (std::min(record.time, now) <= state.last_preserved) {
      record.preserved = true;
    }
  }
  return recovered;
}

}  // namespace belay
