#include "belay/manager/save_interval.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace belay {
namespace {

bool IsTime(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

double DalysOptimum(double save, double mtbf) {
  const double ratio = save / (2 * mtbf);
  if (ratio >= 1) return mtbf;
  return std::sqrt(2 * save * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) -
         save;
}

std::string Text(double seconds) {
  return seconds < 100 ? absl::StrFormat("%.3g s", seconds)
                       : absl::StrFormat("%.0f s", seconds);
}

}  // namespace

StatusOr<SaveInterval> AdviseInterval(double save_seconds,
                                      double restore_seconds,
                                      const AutoInterval& with) {
  if (!IsTime(save_seconds) || !IsTime(restore_seconds)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "advise an interval: times of a save and of a restore (need at least "
        "0, found %g and %g)",
        save_seconds, restore_seconds));
  }
  if (!IsTime(with.mtbf_seconds) || with.mtbf_seconds == 0 ||
      !(with.overhead_budget > 0 && with.overhead_budget < 1)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "advise an interval: mtbf_seconds and overhead_budget (need more than "
        "0, the second below 1, found %g and %g)",
        with.mtbf_seconds, with.overhead_budget));
  }
  const double optimum = DalysOptimum(save_seconds, with.mtbf_seconds);
  const double least = save_seconds / with.overhead_budget;
  SaveInterval interval{.seconds = std::max(optimum, least)};
  if (save_seconds > 0) interval.saving = save_seconds / interval.seconds;
  interval.failing =
      (interval.seconds / 2 + restore_seconds) / with.mtbf_seconds;
  interval.reason = absl::StrCat(
      "save every ", Text(interval.seconds), ": Daly's optimum for saves of ",
      Text(save_seconds), " and a failure every ", Text(with.mtbf_seconds),
      " is ", Text(optimum));
  if (least > optimum) {
    absl::StrAppendFormat(&interval.reason,
                          ", but saves may cost at most %.3g %% of the time",
                          100 * with.overhead_budget);
  }
  absl::StrAppendFormat(&interval.reason,
                        "; expected to cost %.2g %% for saves, %.2g %% for "
                        "failures",
                        100 * interval.saving, 100 * interval.failing);
  return interval;
}

}  // namespace belay
