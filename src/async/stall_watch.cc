#include "async/stall_watch.h"

namespace belay {

bool StallWatch::IsStuck(Time now, int64_t progress, double limit) {
  constexpr std::chrono::seconds kSecondLook{1};
  if (progress_ != progress) {
    progress_ = progress;
    changed_at_ = now;
    suspected_at_.reset();
    return false;
  }
  const std::chrono::duration<double> still = now - changed_at_;
  if (limit <= 0 || still.count() < limit) return false;
  if (!suspected_at_) suspected_at_ = now;
  return now - *suspected_at_ >= kSecondLook;
}

}  // namespace belay
