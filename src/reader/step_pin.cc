#include "belay/reader/step_pin.h"

#include <memory>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/checkpoint_reader.h"
#include "io/steps/pins.h"

namespace belay {

StepPin::StepPin(std::string path, std::unique_ptr<HeldFile> file)
    : path_(std::move(path)), file_(std::move(file)) {}

StepPin::StepPin(StepPin&& other) noexcept = default;
StepPin& StepPin::operator=(StepPin&& other) noexcept = default;
StepPin::~StepPin() = default;

StatusOr<StepPin> StepPin::Take(const std::string& path) {
  // The newest step may be another one once this one is gone.
  constexpr int kTries = 10;
  std::string step;
  for (int i = 0; i < kTries; ++i) {
    BELAY_ASSIGN_OR_RETURN(step, ResolveStep(path));
    StatusOr<HeldFile> file = PinStep(step);
    if (!file.ok()) return PrintableStatus(file.status());
    if (file->fd() >= 0) {
      return StepPin(std::move(step),
                     std::make_unique<HeldFile>(*std::move(file)));
    }
  }
  return absl::NotFoundError(PrintableText(
      Cat("pin \"", step, "\": it is being deleted or replaced")));
}

}  // namespace belay
