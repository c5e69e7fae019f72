#include "belay/step_pin.h"

#include <unistd.h>

#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/checkpoint_reader.h"
#include "store/pins.h"

namespace belay {

StepPin::StepPin(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

StepPin::StepPin(StepPin&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

StepPin& StepPin::operator=(StepPin&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

StepPin::~StepPin() {
  if (fd_ >= 0) ::close(fd_);
}

StatusOr<StepPin> StepPin::Take(const std::string& path) {
  // The newest step may be another one once this one is gone.
  constexpr int kTries = 10;
  std::string step;
  for (int i = 0; i < kTries; ++i) {
    BELAY_ASSIGN_OR_RETURN(step, ResolveStep(path));
    StatusOr<HeldFile> file = PinStep(step);
    if (!file.ok()) return PrintableStatus(file.status());
    if (file->fd() >= 0) return StepPin(std::move(step), file->Release());
  }
  return absl::NotFoundError(PrintableText(
      Cat("pin \"", step, "\": it is being deleted or replaced")));
}

}  // namespace belay
