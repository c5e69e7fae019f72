// Which steps of a run are kept.
//
//   options.retention = {.max_to_keep = 3, .keep_period = 10000};
//
// A program may also pass a policy. It receives the steps that a manager may
// delete and returns which of them to keep:
//
//   options.retention.preservation =
//       AnyOfPolicies({LatestN(3), EveryNStepsClosest(10000)});
//
// (Orbax's preservation policies.)

#ifndef BELAY_MANAGER_RETENTION_POLICY_H_
#define BELAY_MANAGER_RETENTION_POLICY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belay/status.h"

namespace belay {

// What a program measured at a step, by name: {"loss", 0.25}.
using Metrics = std::map<std::string, double>;

// Returns one number that rates a step by its metrics.
using MetricFunction = std::function<double(const Metrics&)>;

// What a manager knows about a step that it saved.
struct StepRecord {
  int64_t step = 0;
  double time = 0;  // of the commit, in seconds since 1970
  // Unset: the program passed none.
  std::optional<Metrics> metrics;
  // Kept for good by keep_checkpoint_every_n_hours: no rule deletes it.
  bool preserved = false;

  bool operator==(const StepRecord&) const = default;
};

// A policy is plain data and a function; programs may define their own. It is
// called on rank 0 after each commit. An exception becomes an error.
struct PreservationPolicy {
  std::string description;  // names the policy in errors
  // Names and values of everything that the result depends on, in any fixed
  // order. They must be equal on all ranks.
  std::vector<std::pair<std::string, std::string>> parameters;
  // Returns one flag for each of `steps`, which are in ascending order: true to
  // keep the step. `now` is in seconds since 1970. Invalid parameters are an
  // error even if there are no steps.
  std::function<StatusOr<std::vector<bool>>(
      const std::vector<StepRecord>& steps, double now)>
      keep;
};

// Keeps all steps. Local.
PreservationPolicy PreserveAll();

// Keeps the `n` steps with the largest numbers; all if unset. Local.
// Errors, when applied: InvalidArgument - n is negative.
PreservationPolicy LatestN(std::optional<int64_t> n);

// Keeps the first step, and each step that is at least `seconds` later than the
// previous one kept. A step with an earlier time, because the clock was set
// back, is also kept, and the interval starts again there. Local.
// Errors, when applied: InvalidArgument - not a number, or negative.
PreservationPolicy EveryNSeconds(double seconds);

// Which steps EveryNSteps keeps.
struct EveryNStepsOptions {
  // True: only multiples of n. False: the first step, and each step at least n
  // after the previous one kept.
  bool exact = true;
  // Keeps at most this many of them, those with the largest numbers.
  std::optional<int64_t> max_to_keep = std::nullopt;
};

// Keeps steps at an interval of `n`. Local.
// Errors, when applied: InvalidArgument - n is below 1, max_to_keep negative.
PreservationPolicy EveryNSteps(int64_t n,
                               const EveryNStepsOptions& options = {});

// Keeps, for each multiple of `n`, the step closest to it (on a tie, the larger
// step), and the last step. A step belongs to the multiple that it is closest
// to (on a tie, the even one). Local.
// Errors, when applied: InvalidArgument - as above.
PreservationPolicy EveryNStepsClosest(
    int64_t n, std::optional<int64_t> max_to_keep = std::nullopt);

// Keeps these steps. Local.
PreservationPolicy CustomSteps(const std::vector<int64_t>& steps);

// How metrics rate a step.
enum class BestMode : uint8_t {
  kMax = 0,  // larger is better
  kMin = 1,
};

struct BestNOptions {
  // Unset: all.
  std::optional<int64_t> n = std::nullopt;
  BestMode mode = BestMode::kMax;
  // Also keeps all steps without metrics. n = 0 keeps nothing, not even these.
  bool keep_checkpoints_without_metrics = true;
};

// Keeps the best steps as rated by `metric`; on a tie, the later ones. NaN is
// worse than any number. If there are at most n steps, all are kept. Local.
// Errors, when applied: InvalidArgument - n is negative, or no function.
PreservationPolicy BestN(MetricFunction metric, const BestNOptions& options);

// The same, rated by the metric of that name; a step that lacks it counts as
// one without metrics. Local.
PreservationPolicy BestN(const std::string& metric,
                         const BestNOptions& options);

// Keeps the first step that is at most `seconds` old, and all later steps. A
// step dated in the future is new. Local.
// Errors, when applied: InvalidArgument - not a number, or negative.
PreservationPolicy LatestDuration(double seconds);

// Keeps the steps that at least one of the policies keeps. Local.
// Errors, when applied: theirs; InvalidArgument - there are none.
PreservationPolicy AnyOfPolicies(std::vector<PreservationPolicy> policies);

// Which steps a manager keeps: those that any of these rules keeps.
struct RetentionPolicy {
  // Number of newest steps or, with best_fn or best_metric, of best steps.
  // Unset: all.
  std::optional<int64_t> max_to_keep = std::nullopt;
  // Keeps multiples of this number.
  std::optional<int64_t> keep_period = std::nullopt;
  // Keeps the first step, and each step at least this many seconds after the
  // previous one kept. If a step is earlier because the clock was set back, it
  // is kept, and the interval starts again there.
  std::optional<double> keep_time_interval = std::nullopt;
  // Of the steps that the rules above would delete, keeps one per this many
  // hours; restarts in the same way.
  std::optional<double> keep_checkpoint_every_n_hours = std::nullopt;
  // Rates a step: a function of its metrics, or the name of one metric.
  MetricFunction best_fn = nullptr;
  std::string best_metric = {};
  BestMode best_mode = BestMode::kMax;
  bool keep_checkpoints_without_metrics = true;
  // Used instead of all these.
  std::optional<PreservationPolicy> preservation = std::nullopt;
};

// Calls a policy and checks its result. Local.
// Errors: those of the policy, prefixed with its description; InvalidArgument -
//   no function, or the number of flags is not that of the steps; Internal - an
//   exception, with its text.
StatusOr<std::vector<bool>> ApplyPreservation(
    const PreservationPolicy& policy, const std::vector<StepRecord>& steps,
    double now);

}  // namespace belay

#endif  // BELAY_MANAGER_RETENTION_POLICY_H_
