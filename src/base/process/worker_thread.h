// A thread that does one piece of work at a time, out of the program's way.

#ifndef BELAY_BASE_PROCESS_WORKER_THREAD_H_
#define BELAY_BASE_PROCESS_WORKER_THREAD_H_

#include <chrono>
#include <functional>
#include <memory>

#include "belay/status.h"

namespace belay {

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
  // now. Local. Requires IsIdle().
  void Begin(std::function<Status()> work);

  // Takes the result of work that the caller has done itself. Local. Requires
  // IsIdle().
  void Hold(Status result);

  // Somebody waits: the work under way no longer gives way to the program.
  // Local.
  void Hurry();

  // Whether no work is under way. Local.
  bool IsIdle() const;

  // Waits until no work is under way, no longer than that. Returns IsIdle().
  // Local.
  bool WaitFor(std::chrono::milliseconds time) const;

  // Waits until no work is under way. Local. In a child process of the one that
  // started the thread, nothing is.
  void Finish() const;

  // Returns what the last work returned; what it throws is an error. Local.
  // Requires IsIdle().
  Status result() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace belay

#endif  // BELAY_BASE_PROCESS_WORKER_THREAD_H_
