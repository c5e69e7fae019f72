#include "base/process/unix_time.h"

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace belay {
namespace {

double SteadySeconds() {
  const std::chrono::duration<double> since =
      std::chrono::steady_clock::now().time_since_epoch();
  return since.count();
}

}  // namespace

double UnixTime() {
  return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
}

double SteadyUnixTime() {
  static const double ahead = UnixTime() - SteadySeconds();
  return SteadySeconds() + ahead;
}

}  // namespace belay
