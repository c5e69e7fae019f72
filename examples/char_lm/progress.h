// Prints the progress of the training. Only rank 0 prints.

#ifndef CHAR_LM_PROGRESS_H_
#define CHAR_LM_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "belay/checkpoint_manager.h"
#include "belay/status.h"

namespace char_lm {

// Prints "step 40/400  loss 2.914  ▇▅▃▂  18 ms/step" now and then, and keeps
// the loss log.
class Progress {
 public:
  // Prints the first step, the last, and every `every` steps, if `enabled`.
  Progress(bool enabled, int64_t every, int64_t last_step)
      : enabled_(enabled), every_(every), last_step_(last_step) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // Appends to the loss log `path` from now on. Local.
  // Errors: NotFound - the file cannot be opened.
  belay::Status OpenLog(const std::string& path);

  // Records a finished step. Prints the mean loss since the last such line.
  // Local.
  void Step(int64_t step, double loss);

  // Prints what was saved or restored, how much, and how fast. Local.
  void Saved(const belay::SaveResult& result);
  void Resumed(const std::string& path, const belay::ManagedRestore& restored);

  // Prints the manager's notes that were not printed yet. Local.
  void Notes(const std::vector<std::string>& notes);

  // Prints a line of text. Local.
  void Say(const std::string& line) const;

 private:
  using Clock = std::chrono::steady_clock;

  void StartClock();

  bool enabled_;
  int64_t every_;
  int64_t last_step_;
  std::FILE* log_ = nullptr;
  std::vector<double> losses_;  // of the printed lines
  // Since the last line about steps.
  double loss_sum_ = 0;
  int64_t num_losses_ = 0;
  // Since the last line about steps or checkpoints, which also take time.
  int64_t steps_timed_ = 0;
  Clock::time_point clock_start_ = Clock::now();
  bool noted_ = false;  // belay's note on the MPI-IO stack was printed
  size_t notes_printed_ = 0;
};

// Draws the last values as bars, the largest at full height, padded with blanks
// to `width` characters. Local.
std::string Sparkline(const std::vector<double>& values, size_t width);

}  // namespace char_lm

#endif  // CHAR_LM_PROGRESS_H_
