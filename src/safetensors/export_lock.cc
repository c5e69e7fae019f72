#include "safetensors/export_lock.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/status_macros.h"

namespace belay {

StatusOr<ExportLock> ExportLock::Take(const std::string& path, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    BELAY_ASSIGN_OR_RETURN(FileLock file, FileLock::Open(path, ""));
    const StatusOr<LockResult> result = file.Try();
    if (result.value_or(LockResult::kUnsupported) == LockResult::kUnsupported) {
      // If the file existed before, another process may have locked it.
      if (file.is_new()) ::unlink(path.c_str());
      BELAY_RETURN_IF_ERROR(result.status());
      return ExportLock();
    }
    // The last holder may have removed the file that was opened.
    if (*result == LockResult::kTaken && file.HasItsName()) {
      return ExportLock(path, std::move(file));
    }
    const std::chrono::duration<double> waited =
        std::chrono::steady_clock::now() - start;
    if (waited.count() >= seconds) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "lock \"%s\": another process exports to this name (waited %g s); "
          "try again when it has ended",
          path, seconds));
    }
    if (*result == LockResult::kHeld) absl::SleepFor(absl::Milliseconds(5));
  }
}

ExportLock::ExportLock(std::string path, FileLock file)
    : path_(std::move(path)), file_(std::move(file)) {}

ExportLock::ExportLock(ExportLock&& other) noexcept = default;

ExportLock& ExportLock::operator=(ExportLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

// Removes the file while it is locked, so that no other export uses it.
ExportLock::~ExportLock() {
  if (is_held() && file_.HasItsName()) ::unlink(path_.c_str());
}

}  // namespace belay
