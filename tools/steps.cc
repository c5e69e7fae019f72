#include "steps.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "commands.h"
#include "json_output.h"
#include "number_text.h"

namespace belay::tools {
namespace {

namespace fs = std::filesystem;

// Returns the prefixes of the step series in the directory.
StatusOr<std::set<std::string>> PrefixesIn(const std::string& path) {
  std::set<std::string> prefixes;
  std::error_code error;
  fs::directory_iterator entries(path, error);
  for (; !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    const size_t end = name.find_last_of('_');
    const bool is_step =
        end != name.npos && end + 1 < name.size() &&
        name.find_first_not_of("0123456789", end + 1) == name.npos;
    if (is_step) prefixes.insert(name.substr(0, end));
  }
  if (!error) return prefixes;
  return absl::NotFoundError(
      absl::StrFormat("list directory \"%s\": %s", path, error.message()));
}

}  // namespace

bool IsDamage(const Status& failure) {
  return absl::IsDataLoss(failure) || absl::IsNotFound(failure);
}

StatusOr<std::vector<StepDirectory>> StepsIn(const std::string& path) {
  const StatusOr<std::set<std::string>> prefixes = PrefixesIn(path);
  if (!prefixes.ok()) return prefixes.status();
  std::vector<StepDirectory> all;
  for (const std::string& prefix : *prefixes) {
    const StatusOr<std::vector<int64_t>> steps = ListSteps(path, prefix);
    if (!steps.ok()) return steps.status();
    for (const int64_t step : *steps) {
      all.push_back({StepPath(path, step, prefix), prefix, step});
    }
  }
  if (!all.empty()) return all;
  // Says what is there instead.
  const StatusOr<std::string> none = ResolveStep(path);
  if (!none.ok()) return none.status();
  return absl::NotFoundError(absl::StrFormat(
      "list steps of \"%s\": it is a step; need a directory of steps", path));
}

StatusOr<std::string> FindStep(const std::string& path,
                               std::optional<int64_t> step) {
  if (!step) return path;
  StatusOr<std::vector<StepDirectory>> steps = StepsIn(path);
  if (!steps.ok()) return steps.status();
  std::vector<StepDirectory> found;
  std::ranges::copy_if(*steps, std::back_inserter(found),
                       [&](const StepDirectory& s) { return s.step == *step; });
  if (found.size() == 1) return found[0].path;
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrFormat("open step %d of \"%s\": no such step (%s, %d to %d)",
                        *step, path, CountText(std::ssize(*steps), "step"),
                        steps->front().step, steps->back().step));
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "open step %d of \"%s\": several series have it; name \"%s\" or \"%s\"",
      *step, path, found[0].path, found[1].path));
}

int ListStepsOf(const std::string& path, bool json) {
  const StatusOr<std::vector<StepDirectory>> steps = StepsIn(path);
  if (!steps.ok()) return Fail(steps.status(), json);
  int code = 0;
  Json all = Json::array();
  if (!json) {
    Print("%-10s  %6s  %10s  %-20s  %s\n", "step", "arrays", "bytes", "saved",
          "directory");
  }
  for (const StepDirectory& step : *steps) {
    const StatusOr<CheckpointInfo> info = ReadCheckpointInfo(step.path);
    if (!info.ok()) {
      (void)Fail(info.status());
      code = 1;
    }
    if (json) {
      all.push_back(
          {{"path", TextJson(step.path)},
           {"step", step.step},
           {"arrays", info.ok() ? Json(info->arrays.size()) : Json()},
           {"bytes", info.ok() ? Json(info->bytes) : Json()},
           {"time", info.ok() ? Json(TimeText(info->time)) : Json()}});
      continue;
    }
    Print("%-10d  %6s  %10s  %-20s  %s\n", step.step,
          info.ok() ? absl::StrCat(info->arrays.size()) : "?",
          info.ok()                 ? BytesText(info->bytes)
          : IsDamage(info.status()) ? "damaged"
                                    : "unreadable",
          info.ok() ? TimeText(info->time) : "?", step.path);
  }
  if (json) PrintJson({{"path", TextJson(path)}, {"steps", std::move(all)}});
  return code;
}

}  // namespace belay::tools
