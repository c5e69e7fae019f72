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

// Returns the name of a signal, such as "SIGUSR1", or "signal 40" if it has no
// name.
std::string SignalText(int signal);

// Returns why a signal cannot be caught to stop a job; "" if it can.
std::string AgainstCatching(int signal);

// Catches signals for as long as it lives. Move only.
//
// A signal is only counted, because schedulers repeat signals. The third SIGINT
// ends the process as if it were not caught, because a user insists. A handler
// that the program installed earlier is also called, and restored by the
// destructor. A handler that the program installs later stays.
class StopSignals {
 public:
  // Errors: InvalidArgument - one of the signals cannot be caught.
  static StatusOr<StopSignals> Catch(const std::vector<int>& signals);

  StopSignals() = default;
  StopSignals(StopSignals&& other) noexcept;
  StopSignals& operator=(StopSignals&& other) noexcept;
  ~StopSignals();

  // Returns the first signal, in the order given to Catch, that has arrived
  // since Catch was called.
  std::optional<int> received() const;

 private:
  struct Caught {
    int signal = 0;
    uint32_t before = 0;  // number that had arrived before
  };
  std::vector<Caught> caught_;
};

}  // namespace belay

#endif  // BELAY_MANAGER_STOP_SIGNALS_H_
