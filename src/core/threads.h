// The library's own threads, which never receive the program's signals.

#ifndef BELAY_CORE_THREADS_H_
#define BELAY_CORE_THREADS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "belay/status.h"

namespace belay {

// Starts a thread in which all signals are blocked. If the system cannot start
// one, returns a thread that is not joinable, and `work` does not run.
std::thread StartThreadWithoutSignals(std::function<void()> work);

// A thread that does one piece of work at a time, with all signals blocked.
// While nobody waits for it, it yields to the program in ways that an
// unprivileged user can undo: it wakes up after other threads (SCHED_BATCH),
// and has the lowest disk priority. Its nice value is unchanged, since only
// root could lower it again. The first Begin starts the thread. Move only; for
// one caller at a time.
class WorkerThread {
 public:
  WorkerThread();
  WorkerThread(WorkerThread&&) noexcept;
  WorkerThread& operator=(WorkerThread&&) noexcept;
  // Work that is running continues, so it must own all that it uses.
  ~WorkerThread();

  // Begins a piece of work. If the system cannot start a thread, does the work
  // in this call. Requires IsIdle().
  void Begin(std::function<Status()> work);

  // Stores the result of work that the caller has done. Requires IsIdle().
  void Hold(Status result);

  // Runs the current work at normal priority, because a caller waits for it.
  void Hurry();

  bool IsIdle() const;

  bool WaitFor(std::chrono::milliseconds time) const;

  // Waits until the thread is idle. Returns without waiting in a child process,
  // which does not have the thread.
  void Finish() const;

  // Returns the last work's result; an exception becomes an error. Requires
  // IsIdle().
  Status result() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace belay

#endif  // BELAY_CORE_THREADS_H_
