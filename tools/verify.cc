#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "commands.h"

namespace belay::tools {
namespace {

// A bar on a terminal, nothing where the output goes elsewhere.
class ProgressBar {
 public:
  explicit ProgressBar(bool shown) : shown_(shown) {}

  void Show(int64_t done, int64_t total) {
    const auto percent =
        static_cast<int>(total == 0 ? 100 : 100 * done / total);
    if (!shown_ || percent == percent_) return;
    percent_ = percent;
    const std::string filled(percent / 4, '#');
    absl::FPrintF(stderr, "\r[%-25s] %3d %%  %s of %s ", filled, percent,
                  BytesText(done), BytesText(total));
  }

  void Clear() {
    if (shown_ && percent_ >= 0) absl::FPrintF(stderr, "\r%60s\r", "");
  }

 private:
  bool shown_;
  int percent_ = -1;
};

}  // namespace

int Verify(const std::string& path, bool quiet) {
  const StatusOr<std::string> step = ResolveStep(path);
  if (!step.ok()) return Fail(step.status());
  const StatusOr<CheckpointInfo> info = ReadCheckpointInfo(*step);
  if (!info.ok()) return Fail(info.status());
  ProgressBar bar(!quiet && isatty(STDERR_FILENO) == 1);
  const StatusOr<VerifyResult> result = VerifyCheckpoint(
      *step, [&](int64_t done, int64_t total) { bar.Show(done, total); });
  bar.Clear();
  if (!result.ok()) return Fail(result.status());
  for (const std::string& line : result->damage) {
    absl::PrintF("damaged: %s\n", line);
  }
  if (!result->damage.empty()) return 1;
  if (quiet) return 0;
  if (!info->has_checksums) {
    absl::PrintF(
        "%s: files are whole; saved without checksums, so their "
        "content was not checked\n",
        *step);
    return 0;
  }
  absl::PrintF("%s: %d arrays, %d blocks, %s: all checksums match\n", *step,
               info->arrays.size(), result->blocks, BytesText(result->bytes));
  return 0;
}

}  // namespace belay::tools
