#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "commands.h"
#include "json_output.h"
#include "number_text.h"
#include "progress_bar.h"

namespace belay::tools {

namespace {

// The number of the other steps of a directory, which are not looked at.
size_t CountOthers(const std::string& path, const std::string& step) {
  if (path == step) return 0;
  std::string prefix = step.substr(step.find_last_of('/') + 1);
  prefix.resize(prefix.find_last_of('_'));
  const StatusOr<std::vector<int64_t>> steps = ListSteps(path, prefix);
  return steps.ok() && !steps->empty() ? steps->size() - 1 : 0;
}

void PrintAsJson(const CheckpointInfo& info, const VerifyResult& result,
                 size_t others) {
  Json damage = Json::array();
  for (const std::string& line : result.damage) {
    damage.push_back(TextJson(line));
  }
  PrintJson({{"path", TextJson(info.path)},
             {"step", info.step},
             {"arrays", info.arrays.size()},
             {"blocks", result.blocks},
             {"bytes", result.bytes},
             {"checksums", info.has_checksums},
             {"sound", result.damage.empty()},
             {"damage", std::move(damage)},
             {"other_steps", others}});
}

void TellOfOthers(size_t others) {
  if (others == 0) return;
  Print("the newest of %d steps; verify each of the others by its path\n",
        others + 1);
}

}  // namespace

int Verify(const std::string& path, const VerifyOptions& options) {
  const StatusOr<std::string> step = ResolveStep(path);
  if (!step.ok()) return Fail(step.status(), options.json);
  const StatusOr<CheckpointInfo> info = ReadCheckpointInfo(*step);
  if (!info.ok()) return Fail(info.status(), options.json);
  ProgressBar bar(!options.quiet);
  const StatusOr<VerifyResult> result = VerifyCheckpoint(
      *step, [&](int64_t done, int64_t total) { bar.Show(done, total); });
  bar.Clear();
  if (!result.ok()) return Fail(result.status(), options.json);
  const size_t others = CountOthers(path, *step);
  if (options.json) {
    PrintAsJson(*info, *result, others);
    return result->damage.empty() ? 0 : 1;
  }
  for (const std::string& line : result->damage) {
    Print("damaged: %s\n", line);
  }
  if (!result->damage.empty()) {
    Print("%s: damaged in %s\n", *step,
          CountText(result->damage.size(), "place"));
    if (!options.quiet) TellOfOthers(others);
    return 1;
  }
  if (options.quiet) return 0;
  if (!info->has_checksums) {
    Print(
        "%s: files are whole; saved without checksums, so their "
        "content was not checked\n",
        *step);
  } else {
    Print("%s: %s, %s, %s: all checksums match\n", *step,
          CountText(info->arrays.size(), "array"),
          CountText(result->blocks, "block"), BytesText(result->bytes));
  }
  TellOfOthers(others);
  return 0;
}

}  // namespace belay::tools
