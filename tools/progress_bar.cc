#include "progress_bar.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "commands.h"
#include "number_text.h"

namespace belay::tools {

ProgressBar::ProgressBar(bool wanted)
    : shown_(wanted && isatty(STDERR_FILENO) == 1) {}

void ProgressBar::Show(int64_t done, int64_t total) {
  const auto percent = static_cast<int>(total == 0 ? 100 : 100 * done / total);
  if (!shown_ || percent == percent_) return;
  percent_ = percent;
  const std::string filled(percent / 4, '#');
  absl::FPrintF(stderr, "\r[%-25s] %3d %%  %s of %s ", filled, percent,
                BytesText(done), BytesText(total));
}

void ProgressBar::Clear() {
  if (shown_ && percent_ >= 0) absl::FPrintF(stderr, "\r%60s\r", "");
  percent_ = -1;
}

}  // namespace belay::tools
