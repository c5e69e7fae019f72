#include "manager/rules/time_use.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace belay {
namespace {

constexpr size_t kRemembered = 5;
constexpr double kSlowerSave = 1.5;
constexpr double kStepsToTell = 2;
// More than that is no cost of a save.
constexpr double kMostOfSave = 10;

double Largest(const std::vector<double>& times) {
  return times.empty() ? 0 : *std::max_element(times.begin(), times.end());
}

}  // namespace

double MedianOf(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void Remember(double seconds, std::vector<double>& times) {
  times.push_back(std::max(seconds, 0.0));
  if (times.size() > kRemembered) times.erase(times.begin());
}

std::optional<double> SecondsOfSave(const TimeUse& use) {
  if (use.saves.empty()) return use.restore;
  return MedianOf(use.saves);
}

double SecondsToStop(const TimeUse& use, double margin) {
  const double save =
      use.saves.empty() ? use.restore.value_or(0) : Largest(use.saves);
  return margin + kSlowerSave * save + kStepsToTell * Largest(use.steps);
}

std::string AgainstLastSave(const TimeUse& use, std::optional<double> left) {
  if (!left || use.saves.empty()) return "";
  const double save = MedianOf(use.saves);
  if (save <= *left) return "";
  return absl::StrFormat(
      "the time limit comes before its end (need %.3g s, found %.3g s)", save,
      std::max(*left, 0.0));
}

StatusOr<std::optional<SaveInterval>> IntervalFor(const TimeUse& use,
                                                  const AutoInterval& with) {
  const std::optional<double> save = SecondsOfSave(use);
  if (!save) return std::nullopt;
  // Where the loop waits, a save costs no less than it takes.
  double cost = std::min(use.cost.value_or(*save), kMostOfSave * *save);
  if (!use.in_background) cost = std::max(cost, *save);
  BELAY_ASSIGN_OR_RETURN(
      SaveInterval interval,
      AdviseInterval(cost, use.restore.value_or(*save), with));
  // In the background the loop is charged less than what a save takes.
  interval.seconds = std::max(interval.seconds, *save);
  return interval;
}

}  // namespace belay
