#include "store/visibility.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/status_macros.h"
#include "store/paths.h"
#include "store/posix_file.h"

namespace belay {

StatusOr<bool> WaitUntilSeen(const std::string& path, double seconds) {
  using Seconds = std::chrono::duration<double>;
  const auto start = std::chrono::steady_clock::now();
  double pause = 0.001;
  for (;;) {
    BELAY_ASSIGN_OR_RETURN(const bool is_there, Exists(path));
    const Seconds waited = std::chrono::steady_clock::now() - start;
    if (is_there || waited.count() >= seconds) return is_there;
    std::this_thread::sleep_for(Seconds(pause));
    pause = std::min(2 * pause, 0.5);
    // Opening directories makes NFS ask whether they have changed.
    ListDirectory(ParentOf(ParentOf(path))).IgnoreError();
    ListDirectory(ParentOf(path)).IgnoreError();
  }
}

}  // namespace belay
