// Shows the progress of a long command.

#ifndef BELAY_TOOLS_PROGRESS_BAR_H_
#define BELAY_TOOLS_PROGRESS_BAR_H_

#include <cstdint>

namespace belay::tools {

// A bar on a terminal; shows nothing if stderr is not a terminal.
class ProgressBar {
 public:
  // `wanted`: false shows nothing at all.
  explicit ProgressBar(bool wanted);

  void Show(int64_t done, int64_t total);

  // Removes the bar, so that other lines can be printed.
  void Clear();

 private:
  bool shown_;
  int percent_ = -1;
};

}  // namespace belay::tools

#endif  // BELAY_TOOLS_PROGRESS_BAR_H_
