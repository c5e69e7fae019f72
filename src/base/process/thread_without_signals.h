// Threads of the library's own, which the program's signals never reach.

#ifndef BELAY_BASE_PROCESS_THREAD_WITHOUT_SIGNALS_H_
#define BELAY_BASE_PROCESS_THREAD_WITHOUT_SIGNALS_H_

#include <functional>
#include <thread>

namespace belay {

// Starts a thread in which all signals are blocked. Where the system has no
// thread to give, returns one that is not joinable, and nothing runs.
std::thread StartThreadWithoutSignals(std::function<void()> work);

}  // namespace belay

#endif  // BELAY_BASE_PROCESS_THREAD_WITHOUT_SIGNALS_H_
