// Signals that ask a job to end.
//
// Handlers belong to the process, so their counters and the table of previous
// handlers are global.

#ifndef BELAY_MANAGER_STOP_SIGNALS_H_
#define BELAY_MANAGER_STOP_SIGNALS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/status.h"

namespace belay {

// "SIGUSR1"; "signal 40" for one without a name.
std::string SignalText(int signal);

// Returns why a signal cannot be caught to stop a job; "" if it can.
std::string AgainstCatching(int signal);

// Catches signals for as long as it lives. Move only.
//
// A signal is only counted, because schedulers repeat theirs. The third SIGINT
// ends the process as if it were not caught, because a user insists. A handler
// that the program had installed before is called as well, and restored at the
// end. One that it installs later stays.
class StopSignals {
 public:
  // Errors: InvalidArgument - one of them cannot be caught.
  static StatusOr<StopSignals> Catch(const std::vector<int>& signals);

  StopSignals() = default;
  StopSignals(StopSignals&& other) noexcept;
  StopSignals& operator=(StopSignals&& other) noexcept;
  ~StopSignals();

  // Returns the first signal, in the order of Catch, that has arrived since.
  std::optional<int> received() const;

 private:
  struct Caught {
    int signal = 0;
    uint32_t before = 0;  // how many had come
  };
  std::vector<Caught> caught_;
};

}  // namespace belay

#endif  // BELAY_MANAGER_STOP_SIGNALS_H_
