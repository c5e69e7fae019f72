// Decides which steps of a manager to keep, preserve and delete.

#ifndef BELAY_MANAGER_RETENTION_PLAN_H_
#define BELAY_MANAGER_RETENTION_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/manager/retention_policy.h"
#include "belay/status.h"
#include "manager/manager_state.h"

namespace belay {

// Returns true if the rules define a best step.
bool HasBest(const RetentionPolicy& retention);

// Returns the policy that the rules describe.
PreservationPolicy MakePolicy(const RetentionPolicy& retention);

// Returns the best step according to best_fn or best_metric, the last one if
// several are equally good. Returns nullopt if no step can be judged.
// Errors: Internal - best_fn threw.
StatusOr<std::optional<int64_t>> FindBest(
    const RetentionPolicy& retention, const std::vector<StepRecord>& records);

// Returns a note if a step has metrics but not best_metric, which may be
// misspelt; otherwise "".
std::string NoteOnMetrics(const RetentionPolicy& retention,
                          const StepRecord& record);

// Returns a note if the step that was just saved is older, according to the
// clock, than the step before it, and there are rules about time; otherwise "".
// `records` must be ascending.
std::string NoteOnClock(const RetentionPolicy& retention,
                        const std::vector<StepRecord>& records, int64_t saved);

// Steps to remove and to preserve, ascending.
struct RetentionPlan {
  std::vector<int64_t> remove;
  std::vector<int64_t> preserve;
  double last_preserved = 0;
};

// Applies the policy to all steps that are not preserved. With `hours`, a step
// that the policy does not keep is preserved if it is at least that many hours
// later than the last preserved step, or if the clock was put back since. The
// oldest step is considered first.
// Errors: those of ApplyPreservation.
StatusOr<RetentionPlan> PlanRetention(const PreservationPolicy& policy,
                                      std::optional<double> hours,
                                      const ManagerState& state, double now);

// Applies a plan to the records.
void CarryOut(const RetentionPlan& plan, ManagerState& state);

}  // namespace belay

#endif  // BELAY_MANAGER_RETENTION_PLAN_H_
