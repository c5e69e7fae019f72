// Why a job must stop, and the exit code that tells the batch script.

#ifndef BELAY_MANAGER_STOP_REASON_H_
#define BELAY_MANAGER_STOP_REASON_H_

#include <string>

#include "belay/cxx20.h"

namespace belay {

// The exit code of a program that stopped early on request, after its last
// checkpoint. When started again, it continues from there. (ERESTART of
// errno.h. A missed deadline ends a job with 75: docs/restart.md.)
inline constexpr int kStoppedExitCode = 85;

// Equal on all ranks.
struct StopReason {
  int signal = 0;           // 0: the time limit of the job is near
  int rank = 0;             // the lowest rank that got the signal
  double seconds_left = 0;  // before the time limit

  // "SIGUSR1 on rank 2", "the time limit in 95 s". Local.
  std::string ToString() const;
};

}  // namespace belay

#endif  // BELAY_MANAGER_STOP_REASON_H_
