// Which steps of a manager are kept, preserved for good, and deleted.

#ifndef BELAY_MANAGER_RETENTION_PLAN_H_
#define BELAY_MANAGER_RETENTION_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/manager/manager_options.h"
#include "belay/manager/retention_policy.h"
#include "belay/status.h"
#include "manager/manager_state.h"

namespace belay {

// Whether the options say what is best.
bool HasBest(const ManagerOptions& options);

// The policy that the options describe.
RetentionPolicy PolicyOf(const ManagerOptions& options);

// The best of the records by best_fn or best_metric, the last of equal ones;
// nothing if no step can be judged.
// Errors: Internal - best_fn threw.
StatusOr<std::optional<int64_t>> BestOf(const ManagerOptions& options,
                                        const std::vector<StepRecord>& records);

// What is to be said where a step has metrics but not best_metric, which may be
// misspelt; "" otherwise.
std::string NoteOnMetrics(const ManagerOptions& options,
                          const StepRecord& record);

// What is to be said where the step that was just saved is older, by the clock,
// than the one before it, and the options have rules about time; "" otherwise.
// `records` ascend by number.
std::string NoteOnClock(const ManagerOptions& options,
                        const std::vector<StepRecord>& records, int64_t saved);

// What to do with the steps of a manager, ascending.
struct RetentionPlan {
  std::vector<int64_t> remove;
  std::vector<int64_t> preserve;
  double last_preserved = 0;
};

// Asks the policy about all steps that are not preserved. With `hours` those
// that it gives up are preserved, the oldest first, if they are so many hours
// later than the one before, or earlier than one of a smaller number, by a
// clock that was put back. Errors: those of ApplyRetention.
StatusOr<RetentionPlan> PlanRetention(const RetentionPolicy& policy,
                                      std::optional<double> hours,
                                      const ManagerState& state, double now);

// Carries a plan out in the records.
void CarryOut(const RetentionPlan& plan, ManagerState& state);

}  // namespace belay

#endif  // BELAY_MANAGER_RETENTION_PLAN_H_
