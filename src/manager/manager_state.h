// What a manager remembers between runs, and what becomes of it at the start
// of the next. No I/O.

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

// A training that goes back to a step. Noted before the newer steps are moved
// or deleted, so that a crash in between does not leave some of them.
struct GoingBack {
  int64_t to = 0;
  std::string aside;     // the directory for them, a name beside theirs
  bool deletes = false;  // those that may be deleted

  bool operator==(const GoingBack&) const = default;
};

struct ManagerState {
  // When the last step was preserved, in seconds since 1970.
  double last_preserved = 0;
  // Steps that the manager has saved, ascending. Others in the directory are
  // never deleted.
  std::vector<StepRecord> steps;
  // Noted before it is saved, so that a crash between commit and the next
  // writing of the state does not make it a stranger.
  std::optional<StepRecord> saving;
  std::optional<GoingBack> going_back;

  bool operator==(const ManagerState&) const = default;
};

// The longest text of a state: over 100,000 steps without metrics.
inline constexpr int64_t kMostStateBytes = int64_t{8} << 20;

// Adds a record, or replaces the one of that step.
void PutRecord(StepRecord record, std::vector<StepRecord>& steps);

// Removes the records of steps that are not in `steps`, ascending.
void KeepOnly(const std::vector<int64_t>& steps,
              std::vector<StepRecord>& records);

// The state as text, in JSON.
// Errors: InvalidArgument - the name of a metric is not UTF-8, or it has more
//   than kMostStateBytes.
StatusOr<std::string> StateText(const ManagerState& state,
                                std::string_view prefix);

// Reads it back. Messages begin with `operation`, such as `read "a.json"`.
// Errors: DataLoss - truncated or damaged; FailedPrecondition - written by
//   another program, or for another prefix; Unimplemented - a newer version.
StatusOr<ManagerState> ParseState(std::string_view text,
                                  std::string_view prefix,
                                  std::string_view operation);

// The state once the steps after `step` are gone: what was preserved of them
// counts no longer.
void ForgetNewer(int64_t step, ManagerState& state);

struct RecoveredState {
  ManagerState state;
  std::vector<std::string> notes;
};

// The state to begin with: `stored` is what the last manager wrote, if there
// was one, and `committed` what is in the directory, ascending. A step that was
// being saved and is there is adopted. Where the clock is behind the last
// preserved step, nobody can tell what had been preserved: then all is.
RecoveredState RecoverState(std::optional<ManagerState> stored,
                            const std::vector<int64_t>& committed, double now);

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_STATE_H_
