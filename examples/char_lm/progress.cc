#include "progress.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"

namespace char_lm {
namespace {

std::string NameOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Progress::~Progress() {
  if (log_ != nullptr) std::fclose(log_);
}

belay::Status Progress::OpenLog(const std::string& path) {
  if (!enabled_ || path.empty()) return absl::OkStatus();
  log_ = std::fopen(path.c_str(), "a");
  if (log_ != nullptr) return absl::OkStatus();
  return absl::NotFoundError("open loss log \"" + path +
                             "\": " + std::strerror(errno));
}

void Progress::Step(int64_t step, double loss) {
  if (!enabled_) return;
  if (log_ != nullptr) {
    // %a writes every bit. Each line is one write, so a kill leaves no partial
    // line.
    std::fprintf(log_, "%lld %a %.6f\n", static_cast<long long>(step), loss,
                 loss);
    std::fflush(log_);
  }
  loss_sum_ += loss;
  ++num_losses_;
  ++steps_timed_;
  const bool first = losses_.empty();
  if (!first && step % every_ != 0 && step != last_step_) return;
  const double mean = loss_sum_ / num_losses_;
  losses_.push_back(mean);
  const std::chrono::duration<double, std::milli> took =
      Clock::now() - clock_start_;
  Say(absl::StrFormat("step %4d/%d  loss %.3f  %s  %.0f ms/step", step,
                      last_step_, mean, Sparkline(losses_, 24),
                      took.count() / steps_timed_));
  loss_sum_ = 0;
  num_losses_ = 0;
  StartClock();
}

void Progress::Saved(const belay::SaveResult& result) {
  double seconds = 0;
  for (const auto& stage : result.counters.stages) {
    seconds += stage.seconds;
  }
  Say(absl::StrFormat("  saved %s: %d arrays, %.1f MB in %.2f s",
                      NameOf(result.path), result.num_arrays,
                      static_cast<double>(result.counters.bytes) / 1e6,
                      seconds));
  // belay's note about the MPI-IO stack is the same at every save.
  if (!result.transfer_note.empty() && !noted_) {
    Say("note: " + result.transfer_note);
    noted_ = true;
  }
  StartClock();
}

void Progress::Resumed(const std::string& path,
                       const belay::ManagedRestore& restored) {
  Say(absl::StrFormat("  resumed from %s: %d arrays", NameOf(path),
                      restored.load_status.report().matched.size()));
  if (!restored.skipped.empty()) Say(restored.ToString());
  StartClock();
}

void Progress::Notes(const std::vector<std::string>& notes) {
  for (; notes_printed_ < notes.size(); ++notes_printed_) {
    Say("  note: " + notes[notes_printed_]);
  }
}

void Progress::StartClock() {
  clock_start_ = Clock::now();
  steps_timed_ = 0;
}

void Progress::Say(const std::string& line) const {
  if (!enabled_) return;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string Sparkline(const std::vector<double>& values, size_t width) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄",
                                          "▅", "▆", "▇", "█"};
  const size_t count = std::min(values.size(), width);
  std::string line;
  if (count > 0) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const double range = std::max(*high - *low, 1e-9);
    for (auto value = values.end() - count; value != values.end(); ++value) {
      line += kBars[static_cast<int>((*value - *low) / range * 7.99)];
    }
  }
  return line + std::string(width - count, ' ');
}

}  // namespace char_lm
