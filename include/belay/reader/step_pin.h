// Keeps a step while a program reads it.
//
//   auto pin = belay::StepPin::Take("run");  // the newest step
//   auto reader = belay::CheckpointReader::Open(pin->path());

#ifndef BELAY_READER_STEP_PIN_H_
#define BELAY_READER_STEP_PIN_H_

#include <memory>
#include <string>

#include "belay/status.h"

namespace belay {

class HeldFile;

// While a program holds a pin on a step, no manager deletes it and no save
// replaces it. This lets a program evaluate a run that keeps only its last
// three steps. A manager that would delete the step records a note and tries
// again at the next save. Any number of programs may pin one step; a pin needs
// only read permission. On a file system without locks, Take fails.
//
// Move only. The pin ends with the object, or when the process and all
// processes that it forked end, however they end.
class StepPin {
 public:
  // Pins a step: `path` itself, or the newest one of a directory of steps.
  // Local.
  // Errors: NotFound - no such step, or it was just deleted; Unimplemented
  //   - the file system has no locks; those of the file system.
  static StatusOr<StepPin> Take(const std::string& path);

  // Move only; assignment and destruction release the pin. Local.
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

#endif  // BELAY_READER_STEP_PIN_H_
