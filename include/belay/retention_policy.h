// Retention policies: which steps of a run are kept.
//
// A policy sees the steps that a manager may delete and says which of them to
// keep. Rules combine: what any of them keeps, stays.
//
//   options.retention = AnyOfPolicies({LatestN(3), EveryNSteps(10000)});
//
// (Orbax's preservation policies.)

#ifndef BELAY_RETENTION_POLICY_H_
#define BELAY_RETENTION_POLICY_H_

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

// One number of a step's metrics that tells how good the step is.
using MetricFunction = std::function<double(const Metrics&)>;

// What a manager knows of a step that it has saved.
struct StepRecord {
  int64_t step = 0;
  double time = 0;  // of the commit, in seconds since 1970
  // Unset: the program passed none.
  std::optional<Metrics> metrics;
  // Kept for good by keep_checkpoint_every_n_hours.
  bool preserved = false;

  bool operator==(const StepRecord&) const = default;
};

// A policy is plain data and a function; anyone may make one. It is called on
// rank 0 after each commit. An exception becomes an error.
struct RetentionPolicy {
  std::string description;  // names the policy in errors
  // Names and values of all that the result depends on, in any fixed order.
  // Ranks must pass equal ones.
  std::vector<std::pair<std::string, std::string>> parameters;
  // One flag for each of `steps`, which ascend by number: whether to keep it.
  // `now` is in seconds since 1970. Bad parameters are an error also for no
  // steps.
  std::function<StatusOr<std::vector<bool>>(
      const std::vector<StepRecord>& steps, double now)>
      keep;
};

// Keeps all. Local.
RetentionPolicy PreserveAll();

// Keeps the `n` steps with the largest numbers; all if it is not set. Local.
// Errors, when called: InvalidArgument - n is negative.
RetentionPolicy LatestN(std::optional<int64_t> n);

// Keeps the first step, and each one at least `seconds` after the one kept
// before. Local.
// Errors, when called: InvalidArgument - not a number, or negative.
RetentionPolicy EveryNSeconds(double seconds);

// What EveryNSteps and EveryNStepsClosest keep beyond their interval.
struct EveryNStepsOptions {
  // Multiples of n only. Otherwise the first step, and each one at least n
  // after the one kept before.
  bool exact = true;
  // Only so many of them, those with the largest numbers.
  std::optional<int64_t> max_to_keep = std::nullopt;
};

// Keeps steps at an interval of `n`. Local.
// Errors, when called: InvalidArgument - n is below 1, max_to_keep negative.
RetentionPolicy EveryNSteps(int64_t n, const EveryNStepsOptions& options = {});

// Keeps, for each multiple of `n`, the step that is closest to it, the larger
// one of two; and the last step. A step belongs to the multiple that it is
// closest to, the even one of two. Local.
// Errors, when called: InvalidArgument - as above.
RetentionPolicy EveryNStepsClosest(
    int64_t n, std::optional<int64_t> max_to_keep = std::nullopt);

// Keeps these. Local.
RetentionPolicy CustomSteps(const std::vector<int64_t>& steps);

struct BestNOptions {
  // Unset: all.
  std::optional<int64_t> n = std::nullopt;
  // Small is good.
  bool reverse = false;
  // Keeps them all, beside the n best. With n = 0 nothing is kept.
  bool keep_checkpoints_without_metrics = true;
};

// Keeps the best steps by what `metric` makes of their metrics; of equal ones
// the later ones. What is not a number is worse than any number. As long as
// there are no more than n steps, all are kept. Local.
// Errors, when called: InvalidArgument - n is negative, or no function.
RetentionPolicy BestN(MetricFunction metric, const BestNOptions& options);

// The same by the metric of that name; steps that lack it count as without
// metrics. Local.
RetentionPolicy BestN(const std::string& metric, const BestNOptions& options);

// Keeps the first step that is at most `seconds` old, and all that follow.
// Local.
// Errors, when called: InvalidArgument - not a number, or negative.
RetentionPolicy LatestDuration(double seconds);

// Keeps what at least one of the policies keeps. Local.
// Errors, when called: theirs; InvalidArgument - there are none.
RetentionPolicy AnyOfPolicies(std::vector<RetentionPolicy> policies);

// Calls a policy and checks what it says. Local.
// Errors: those of the policy, with its description in front; InvalidArgument -
//   no function, or another number of flags than of steps; Internal - an
//   exception, with its text.
StatusOr<std::vector<bool>> ApplyRetention(const RetentionPolicy& policy,
                                           const std::vector<StepRecord>& steps,
                                           double now);

}  // namespace belay

#endif  // BELAY_RETENTION_POLICY_H_
