// What one life of a program that is killed tells the next one: the steps that
// it has reported, and every byte of those that were there before it. Rank 0
// only.

#ifndef BELAY_MPI_TESTS_LIFE_NOTES_H_
#define BELAY_MPI_TESTS_LIFE_NOTES_H_

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "belay/save_restore.h"
#include "core/wire.h"
#include "fault_points.h"
#include "file_bytes.h"

namespace belay::testing {

class LifeNotes {
 public:
  // `notes` names files of which none lies in `dir`, that of the steps.
  LifeNotes(std::string dir, std::string notes)
      : dir_(std::move(dir)), notes_(std::move(notes)) {}

  void Report(int64_t step) const {
    std::ofstream(notes_ + ".reported", std::ios::app) << step << "\n"
                                                       << std::flush;
  }

  // The next life has to find the step that was reported last, and none after.
  void ExpectNoMore() const { std::ofstream(notes_ + ".exact") << "\n"; }

  // Checks what the last life has left, removes all but a few of the steps, and
  // notes what those have that stay. Returns the exit code: 4 - a committed
  // step is gone; 7 - one has changed; 8 - one is there that nobody has
  // committed.
  int Check(const std::vector<int64_t>& steps) const {
    const int64_t newest = steps.empty() ? 0 : steps.back();
    const int64_t reported = LastReported();
    if (newest < reported) return 4;
    std::error_code gone;
    if (std::filesystem::remove(notes_ + ".exact", gone) &&
        newest != reported) {
      return 8;
    }
    for (const auto& [step, sum] : NotedSteps()) {
      if (!std::ranges::binary_search(steps, step)) return 4;
      if (FingerprintOf(step) != sum) return 7;
    }
    NoteSteps(steps);
    return 0;
  }

 private:
  int64_t LastReported() const {
    int64_t last = 0;
    std::ifstream in(notes_ + ".reported");
    for (int64_t step = 0; in >> step;) last = step;
    return last;
  }

  // Of all bytes of a step.
  uint64_t FingerprintOf(int64_t step) const {
    const std::string path = StepPath(dir_, step);
    std::string all;
    for (const std::string& name : NamesIn(path)) {
      all += name + "\n" + FileBytes(path + "/" + name);
    }
    return Fingerprint(all);
  }

  std::map<int64_t, uint64_t> NotedSteps() const {
    std::map<int64_t, uint64_t> steps;
    std::ifstream in(notes_ + ".steps");
    int64_t step = 0;
    for (uint64_t sum = 0; in >> step >> sum;) steps[step] = sum;
    return steps;
  }

  void NoteSteps(const std::vector<int64_t>& steps) const {
    constexpr size_t kStay = 3;
    std::ofstream out(notes_ + ".steps");
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i + kStay < steps.size()) {
        std::filesystem::remove_all(StepPath(dir_, steps[i]));
      } else {
        out << steps[i] << " " << FingerprintOf(steps[i]) << "\n";
      }
    }
  }

  std::string dir_;
  std::string notes_;
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_LIFE_NOTES_H_
