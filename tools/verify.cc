#include <cstdint>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "commands.h"
#include "json_output.h"
#include "number_text.h"
#include "progress_bar.h"
#include "steps.h"

namespace belay::tools {

namespace {

// Returns the steps of a directory up to `step`, which is its newest. None if
// `path` is the step itself.
std::vector<int64_t> StepsUpTo(const std::string& path,
                               const std::string& step) {
  if (path == step) return {};
  std::string prefix = step.substr(step.find_last_of('/') + 1);
  prefix.resize(prefix.find_last_of('_'));
  return ListSteps(path, prefix).value_or(std::vector<int64_t>());
}

// Returns the number in the name of a step directory.
std::optional<int64_t> StepNumber(const std::string& step) {
  int64_t number = 0;
  const size_t begin = step.find_last_of('_') + 1;
  if (!absl::SimpleAtoi(step.substr(begin), &number)) return std::nullopt;
  return number;
}

Json ToJson(const CheckpointInfo& info, const VerifyResult& result) {
  Json damage = Json::array();
  for (const std::string& line : result.damage) {
    damage.push_back(TextJson(line));
  }
  return {{"path", TextJson(info.path)},    {"step", info.step},
          {"arrays", info.arrays.size()},   {"blocks", result.blocks},
          {"bytes", result.bytes},          {"checksums", info.has_checksums},
          {"sound", result.damage.empty()}, {"damage", std::move(damage)}};
}

void PrintText(const std::string& step, const CheckpointInfo& info,
               const VerifyResult& result, bool quiet) {
  for (const std::string& line : result.damage) {
    Print("damaged: %s\n", line);
  }
  if (!result.damage.empty()) {
    Print("%s: damaged in %s\n", step,
          CountText(result.damage.size(), "place"));
  } else if (quiet) {
    return;
  } else if (!info.has_checksums) {
    Print(
        "%s: files are whole; saved without checksums, so their "
        "content was not checked\n",
        step);
  } else {
    Print("%s: %s, %s, %s: all checksums match\n", step,
          CountText(info.arrays.size(), "array"),
          CountText(result.blocks, "block"), BytesText(result.bytes));
  }
}

struct Verified {
  CheckpointInfo info;
  VerifyResult result;
};

// `number` is the one by which programs find the step, if they do.
StatusOr<Verified> VerifyStep(const std::string& step,
                              std::optional<int64_t> number, bool quiet) {
  StatusOr<CheckpointInfo> info = ReadCheckpointInfo(step);
  if (!info.ok()) return info.status();
  ProgressBar bar(!quiet);
  StatusOr<VerifyResult> result = VerifyCheckpoint(
      step, [&](int64_t done, int64_t total) { bar.Show(done, total); });
  bar.Clear();
  if (!result.ok()) return result.status();
  if (number && info->step != *number) {
    result->damage.push_back(
        absl::StrFormat("the index is of another step (need %d, found %d), so "
                        "no restore by number takes it",
                        *number, info->step));
  }
  return Verified{*std::move(info), *std::move(result)};
}

// Verifies all steps, even if the index of one cannot be read.
int VerifyAll(const std::string& path, const VerifyOptions& options) {
  const StatusOr<std::vector<StepDirectory>> steps = StepsIn(path);
  if (!steps.ok()) return Fail(steps.status(), options.json);
  int64_t damaged = 0, unreadable = 0;  // `damaged` includes `unreadable`
  Json all = Json::array();
  for (const StepDirectory& step : *steps) {
    const StatusOr<Verified> verified =
        VerifyStep(step.path, step.step, options.quiet);
    const bool is_sound = verified.ok() && verified->result.damage.empty();
    damaged += is_sound ? 0 : 1;
    const bool is_unreadable = !verified.ok() && !IsDamage(verified.status());
    unreadable += is_unreadable ? 1 : 0;
    if (options.json) {
      all.push_back(
          verified.ok()
              ? ToJson(verified->info, verified->result)
              : Json{
                    {"path", TextJson(step.path)},
                    {"step", step.step},
                    {"sound", false},
                    {"damage", {PrintableText(verified.status().ToString())}}});
    } else if (verified.ok()) {
      PrintText(step.path, verified->info, verified->result, options.quiet);
    } else {
      Print("%s: %s\n", is_unreadable ? "unreadable" : "damaged",
            IndentedText(verified.status().ToString()));
    }
  }
  if (options.json) {
    PrintJson({{"path", TextJson(path)},
               {"sound", damaged == 0},
               {"steps", std::move(all)}});
  } else if (damaged > 0 || !options.quiet) {
    Print(
        "%d of %s damaged%s\n", damaged - unreadable,
        CountText(std::ssize(*steps), "step"),
        unreadable == 0 ? "" : absl::StrFormat(", %d unreadable", unreadable));
  }
  return damaged == 0 ? 0 : 1;
}

}  // namespace

int Verify(const std::string& path, const VerifyOptions& options) {
  if (options.all) return VerifyAll(path, options);
  const StatusOr<std::string> step = ResolveStep(path);
  if (!step.ok()) return Fail(step.status(), options.json);
  const std::vector<int64_t> steps = StepsUpTo(path, *step);
  const std::optional<int64_t> number =
      steps.empty() ? options.step : StepNumber(*step);
  const StatusOr<Verified> verified = VerifyStep(*step, number, options.quiet);
  if (!verified.ok()) return Fail(verified.status(), options.json);
  const VerifyResult& result = verified->result;
  const bool is_sound = result.damage.empty();
  const size_t others = steps.empty() ? 0 : steps.size() - 1;
  if (options.json) {
    Json json = ToJson(verified->info, result);
    json["other_steps"] = others;
    PrintJson(json);
    return is_sound ? 0 : 1;
  }
  PrintText(*step, verified->info, result, options.quiet);
  if (others > 0 && !options.quiet) {
    Print("the newest of %d steps; --all verifies the others, too\n",
          others + 1);
  }
  return is_sound ? 0 : 1;
}

}  // namespace belay::tools
