// Keeping a step while a program reads it.
//
//   auto pin = belay::StepPin::Take("run");  // the newest step
//   auto reader = belay::CheckpointReader::Open(pin->path());

#ifndef BELAY_STEP_PIN_H_
#define BELAY_STEP_PIN_H_

#include <memory>
#include <string>

#include "belay/status.h"

namespace belay {

class HeldFile;

// No manager deletes, and no save replaces, a step while a program that has
// pinned it lives: an evaluation of a run that keeps its last three steps only.
// A manager that would delete it notes that, and tries again with the next
// save. As many programs as like may pin one step; it takes nothing but the
// right to read it. Where a file system has no locks, a pin is an error.
//
// Move only. The pin is given up with the object, or when the process and those
// that it has forked off end, however they end.
class StepPin {
 public:
  // Pins a step: `path` itself, or the newest one of a directory of steps.
  // Local.
  // Errors: NotFound - no such step, or it was deleted meanwhile; Unimplemented
  //   - the file system has no locks; those of the file system.
  static StatusOr<StepPin> Take(const std::string& path);

  // Moves, gives up. Local.
  StepPin(StepPin&& other) noexcept;
  StepPin& operator=(StepPin&& other) noexcept;
  ~StepPin();

  // The directory of the step. Local.
  const std::string& path() const { return path_; }

 private:
  StepPin(std::string path, std::unique_ptr<HeldFile> file);

  std::string path_;
  std::unique_ptr<HeldFile> file_;
};

}  // namespace belay

#endif  // BELAY_STEP_PIN_H_
