#include <cstdio>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "commands.h"
#include "number_text.h"
#include "progress_bar.h"

namespace belay::tools {

int Verify(const std::string& path, bool quiet) {
  const StatusOr<std::string> step = ResolveStep(path);
  if (!step.ok()) return Fail(step.status());
  const StatusOr<CheckpointInfo> info = ReadCheckpointInfo(*step);
  if (!info.ok()) return Fail(info.status());
  ProgressBar bar(!quiet);
  const StatusOr<VerifyResult> result = VerifyCheckpoint(
      *step, [&](int64_t done, int64_t total) { bar.Show(done, total); });
  bar.Clear();
  if (!result.ok()) return Fail(result.status());
  for (const std::string& line : result->damage) {
    absl::PrintF("damaged: %s\n", line);
  }
  if (!result->damage.empty()) {
    absl::PrintF("%s: damaged in %s\n", *step,
                 CountText(result->damage.size(), "place"));
    return 1;
  }
  if (quiet) return 0;
  if (!info->has_checksums) {
    absl::PrintF(
        "%s: files are whole; saved without checksums, so their "
        "content was not checked\n",
        *step);
    return 0;
  }
  absl::PrintF("%s: %s, %s, %s: all checksums match\n", *step,
               CountText(info->arrays.size(), "array"),
               CountText(result->blocks, "block"), BytesText(result->bytes));
  return 0;
}

}  // namespace belay::tools
