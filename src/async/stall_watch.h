// Tells a thread that is stuck from one that is slow. Pure.

#ifndef BELAY_ASYNC_STALL_WATCH_H_
#define BELAY_ASYNC_STALL_WATCH_H_

#include <chrono>
#include <cstdint>
#include <optional>

namespace belay {

class StallWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Looks at what changes while the thread goes on. Returns whether it has not
  // changed for `limit` seconds (0: no limit) and not since the look before
  // either, a second ago: a process that was suspended looks stuck at first.
  bool IsStuck(Time now, int64_t progress, double limit);

 private:
  std::optional<int64_t> progress_;
  Time changed_at_;
  std::optional<Time> suspected_at_;
};

}  // namespace belay

#endif  // BELAY_ASYNC_STALL_WATCH_H_
