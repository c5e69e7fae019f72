// Signals that ask a job to end.
//
// A handler is one for the whole process, so what it counts is, too: with the
// table of handlers that were there before, the only state outside objects.

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

// Why a signal cannot be caught to stop a job; "" if it can.
std::string AgainstCatching(int signal);

// Catches signals for as long as it lives. Move only.
//
// A signal is noted and does nothing else, however often it comes: schedulers
// repeat theirs. Only the third SIGINT ends the process, as if it had never
// been caught: a person insists. A handler that the program had installed is
// called as well, and is put back at the end. One that it installs later stays.
class StopSignals {
 public:
  // Errors: InvalidArgument - one of them cannot be caught.
  static StatusOr<StopSignals> Catch(const std::vector<int>& signals);

  StopSignals() = default;
  StopSignals(StopSignals&& other) noexcept;
  StopSignals& operator=(StopSignals&& other) noexcept;
  ~StopSignals();

  // The first in the order of Catch that has come since then.
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
