// Pins on steps: locks on the index that readers share, and that whoever
// removes the step takes alone.

#ifndef BELAY_STORAGE_PINS_H_
#define BELAY_STORAGE_PINS_H_

#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// A descriptor; closed at the end.
class HeldFile {
 public:
  HeldFile() = default;
  explicit HeldFile(int fd) : fd_(fd) {}
  HeldFile(HeldFile&& other) noexcept;
  HeldFile& operator=(HeldFile&& other) noexcept;
  ~HeldFile();

  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// Pins the step at `path`. Without a descriptor, the step has lost its
// name meanwhile, or is about to.
// Errors: Unimplemented - the file system has no locks; those of OpenRegular.
StatusOr<HeldFile> PinStep(const std::string& path);

// Keeps others from pinning a step that is to lose its name, until what it
// returns is gone. Rank 0 only. A step without an index has no pins.
// Errors: FailedPrecondition - a program has pinned it; the message begins with
//   `operation`; those of OpenRegular.
StatusOr<HeldFile> LockAgainstPins(std::string_view operation,
                                   const std::string& path);

}  // namespace belay

#endif  // BELAY_STORAGE_PINS_H_
