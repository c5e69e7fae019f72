// Threads of the library's own, which the program's signals never reach.

#ifndef BELAY_CORE_THREADS_H_
#define BELAY_CORE_THREADS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "belay/status.h"

namespace belay {

// Starts a thread in which all signals are blocked. Where the system has no
// thread to give, returns one that is not joinable, and nothing runs.
std::thread StartThreadWithoutSignals(std::function<void()> work);

// A thread that does one piece of work at a time, out of the program's way.

// No signal of the program reaches the thread. While nobody waits for it, it
// gives way to the program, as far as a user without rights can undo that: it
// wakes up behind others (SCHED_BATCH), and the disk serves it last. Its nice
// value stays, which only root can lower again. Starts with the first work.
// Move only; for one caller at a time.
class WorkerThread {
 public:
  WorkerThread();
  WorkerThread(WorkerThread&&) noexcept;
  WorkerThread& operator=(WorkerThread&&) noexcept;
  // Lets work that is under way go on by itself, and does not wait for it: it
  // must own what it uses. In a child process of the one that started the
  // thread, there is nothing to let go of.
  ~WorkerThread();

  // Begins a piece of work. Where the system has no thread to give, does it
  // now. Requires IsIdle().
  void Begin(std::function<Status()> work);

  // Takes the result of work that the caller has done itself. Requires
  // IsIdle().
  void Hold(Status result);

  // Somebody waits: the work under way no longer gives way to the program.
  void Hurry();

  // Whether no work is under way.
  bool IsIdle() const;

  // Waits until no work is under way, no longer than that. Returns IsIdle().
  bool WaitFor(std::chrono::milliseconds time) const;

  // Waits until no work is under way. In a child process of the one that
  // started the thread, nothing is.
  void Finish() const;

  // Returns what the last work returned; what it throws is an error.
  // Requires IsIdle().
  Status result() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace belay

#endif  // BELAY_CORE_THREADS_H_
