// The state of a manager between runs. No I/O.

#ifndef BELAY_MANAGER_MANAGER_STATE_H_
#define BELAY_MANAGER_MANAGER_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/manager/manager_options.h"
#include "belay/manager/retention_policy.h"
#include "belay/status.h"

namespace belay {

// The program goes back to an older step. Written before newer steps are moved
// or deleted, so that after a crash the next manager completes this.
struct GoingBack {
  int64_t to = 0;
  std::string aside;     // name of the directory for moved steps
  bool deletes = false;  // delete instead, where allowed

  bool operator==(const GoingBack&) const = default;
};

struct ManagerState {
  // Time of the last preserved step, in seconds since 1970.
  double last_preserved = 0;
  // The steps that managers have saved, ascending. Other steps in the directory
  // are never deleted.
  std::vector<StepRecord> steps;
  // Written before a step is saved, so that the step is managed even if the job
  // crashes right after the commit.
  std::optional<StepRecord> saving;
  std::optional<GoingBack> going_back;

  bool operator==(const ManagerState&) const = default;
};

// The maximum length of a state's text, enough for over 100,000 steps without
// metrics.
inline constexpr int64_t kMaxStateBytes = int64_t{8} << 20;

// Adds a record, or replaces the record of the same step.
void PutRecord(StepRecord record, std::vector<StepRecord>& steps);

// Removes the records of steps that are not in `steps`, which must be
// ascending.
void KeepOnly(const std::vector<int64_t>& steps,
              std::vector<StepRecord>& records);

// Returns the state as JSON.
// Errors: InvalidArgument - the name of a metric is not UTF-8, or the text has
//   more than kMaxStateBytes.
StatusOr<std::string> StateText(const ManagerState& state,
                                std::string_view prefix);

// Parses the state. Messages begin with `operation`, such as `read "a.json"`.
// Errors: DataLoss - truncated or damaged; FailedPrecondition - written by
//   another program, or for another prefix; Unimplemented - a newer version.
StatusOr<ManagerState> ParseState(std::string_view text,
                                  std::string_view prefix,
                                  std::string_view operation);

// Removes the steps newer than `step` from the state, including preserved ones.
void ForgetNewer(int64_t step, ManagerState& state);

struct RecoveredState {
  ManagerState state;
  std::vector<std::string> notes;
};

// Returns the state at the start of a run. `stored` is the state of the last
// manager, if any, and `committed` the steps in the directory, ascending.
// Adopts a committed step whose save was announced. If the clock is behind the
// last preserved step, preserves all steps.
RecoveredState RecoverState(std::optional<ManagerState> stored,
                            const std::vector<int64_t>& committed, double now);

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_STATE_H_
