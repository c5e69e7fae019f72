#include "save/save_progress.h"

#include <algorithm>

#include "base/catch_exceptions.h"

namespace belay {

std::function<Status(int64_t)> ProgressUpTo(
    int64_t total, const std::function<void(int64_t, int64_t)>& progress) {
  if (!progress) return nullptr;
  return [&progress, total, done = int64_t{0}](int64_t bytes) mutable {
    done = std::min(done + bytes, total);  // texts do not count
    return CatchExceptions([&] {
      progress(done, total);
      return absl::OkStatus();
    });
  };
}

}  // namespace belay
