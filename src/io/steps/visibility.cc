#include "io/steps/visibility.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "format/paths.h"
#include "io/files/posix_file.h"

namespace belay {

namespace {

StatusOr<bool> WaitUntil(const std::string& path, double seconds,
                         absl::FunctionRef<StatusOr<bool>()> look) {
  const auto start = std::chrono::steady_clock::now();
  double pause = 0.001;
  for (;;) {
    BELAY_ASSIGN_OR_RETURN(const bool is_seen, look());
    const std::chrono::duration<double> waited =
        std::chrono::steady_clock::now() - start;
    if (is_seen || waited.count() >= seconds) return is_seen;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    pause = std::min(2 * pause, 0.5);
    // Opening directories makes NFS ask whether they have changed.
    ListDirectory(ParentOf(ParentOf(path))).IgnoreError();
    ListDirectory(ParentOf(path)).IgnoreError();
  }
}

StatusOr<bool> Holds(const std::string& path, const std::string& content) {
  const auto size = static_cast<int64_t>(content.size());
  BELAY_ASSIGN_OR_RETURN(const bool is_there, Exists(path));
  if (!is_there) return false;
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  if (stat.size != size) return false;
  std::string found(content.size(), '\0');
  BELAY_RETURN_IF_ERROR(file.PreadAll(0, found.data(), size));
  return found == content;
}

}  // namespace

StatusOr<bool> WaitUntilSeen(const std::string& path, double seconds) {
  return WaitUntil(path, seconds, [&] { return Exists(path); });
}

StatusOr<bool> WaitUntilHolds(const std::string& path,
                              const std::string& content, double seconds) {
  return WaitUntil(path, seconds, [&] { return Holds(path, content); });
}

}  // namespace belay
