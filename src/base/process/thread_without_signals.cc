#include "base/process/thread_without_signals.h"

#include <csignal>
#include <system_error>
#include <utility>

namespace belay {

std::thread StartThreadWithoutSignals(std::function<void()> work) {
  // A new thread inherits the mask of the one that starts it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(work));
  } catch (const std::system_error&) {
    // The caller does without.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace belay
