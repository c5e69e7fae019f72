#include "state/made_bytes.h"

#include "absl/strings/str_format.h"
#include "core/text.h"

namespace belay {
namespace {

constexpr double kMostPerByte = 1024, kAnyway = 64 << 20;

double BytesOf(const ArrayForm& form) {
  return static_cast<double>(NumElements(form.shape)) *
         static_cast<double>(DTypeSize(form.dtype));
}

}  // namespace

void MadeBytes::AddStored(const std::string& key, const ArrayForm& form) {
  if (keys_.insert(key).second) stored_ += BytesOf(form);
}

void MadeBytes::AddMade(const ArrayForm& form) { made_ += BytesOf(form); }

Status MadeBytes::Check(std::string_view who) const {
  const double most = kAnyway + kMostPerByte * stored_;
  if (made_ <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s make too many bytes of those that are stored (need at most %.0f of "
      "%.0f, found %.0f)",
      AbslView(who), most, stored_, made_));
}

}  // namespace belay
