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

// A thread that does one piece of work at a time. No signal of the program
// reaches it. While nobody waits for it, it gives way to the program as far as
// a user without rights can undo that: it wakes up behind others (SCHED_BATCH),
// and the disk serves it last. Its nice value stays, which only root can lower
// again. Starts with the first work. Move only; for one caller at a time.
class WorkerThread {
 public:
  WorkerThread();
  WorkerThread(WorkerThread&&) noexcept;
  WorkerThread& operator=(WorkerThread&&) noexcept;
  // Lets work that is under way go on, so that it must own all that it uses.
  ~WorkerThread();

  // Begins a piece of work; does it now if the system has no thread to give.
  // Requires IsIdle().
  void Begin(std::function<Status()> work);

  // Takes the result of work that the caller has done. Requires IsIdle().
  void Hold(Status result);

  // The work under way stops giving way to the program: somebody waits.
  void Hurry();

  bool IsIdle() const;

  bool WaitFor(std::chrono::milliseconds time) const;

  // Waits until the thread is idle, but not in a child process, which has no
  // thread.
  void Finish() const;

  // The result of the last work, also of an exception. Requires IsIdle().
  Status result() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace belay

#endif  // BELAY_CORE_THREADS_H_
