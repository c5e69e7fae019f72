#include "core/threads.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "core/catch_exceptions.h"

namespace belay {

std::thread StartThreadWithoutSignals(std::function<void()> work) {
  // A new thread inherits the mask of the thread that starts it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(work));
  } catch (const std::system_error&) {
    // The caller handles a thread that is not joinable.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

// --- Worker thread ---

namespace {

constexpr int kWhoIsThread = 1;
constexpr int kClassShift = 13;
constexpr int kNone = 0;
constexpr int kBestEffort = 2;
constexpr int kIdle = 3;

bool SetPolicy(pid_t thread, int policy) {
  const sched_param none{};
  return ::sched_setscheduler(thread, policy, &none) == 0;
}

bool SetIoPriority(pid_t thread, int priority) {
  return ::syscall(SYS_ioprio_set, kWhoIsThread, thread, priority) == 0;
}

}  // namespace

struct WorkerThread::Shared {
  std::mutex mutex;  // guards all members; not held while work runs
  std::condition_variable begun;
  std::condition_variable done;
  std::function<Status()> work;
  Status result;
  bool is_idle = true;
  bool is_left = false;  // the WorkerThread was destroyed
  bool is_hurried = false;
  bool is_batch = false;               // runs under SCHED_BATCH
  std::optional<int> old_io_priority;  // set while lowered
  pid_t id = 0;                        // of the thread, once it runs
  std::thread thread;
  pid_t process = 0;  // the process that started the thread

  // Lowers the thread's priority. Changes nothing if the system refuses, nor
  // under SCHED_IDLE or real-time policies, which an unprivileged user could
  // not restore.
  void GiveWay() {
    if (!is_batch && ::sched_getscheduler(id) == SCHED_OTHER) {
      is_batch = SetPolicy(id, SCHED_BATCH);
    }
    if (old_io_priority) return;
    const auto priority =
        static_cast<int>(::syscall(SYS_ioprio_get, kWhoIsThread, id));
    if (priority < 0) return;
    const int io_class = priority >> kClassShift;
    if ((io_class == kNone || io_class == kBestEffort) &&
        SetIoPriority(id, kIdle << kClassShift)) {
      // Older kernels return a level without a class, but reject it as an
      // argument.
      old_io_priority = io_class == kNone ? 0 : priority;
    }
  }

  void StopGivingWay() {
    if (std::exchange(is_batch, false)) SetPolicy(id, SCHED_OTHER);
    if (old_io_priority) SetIoPriority(id, *old_io_priority);
    old_io_priority.reset();
  }
};

WorkerThread::WorkerThread() : shared_(std::make_shared<Shared>()) {}
WorkerThread::WorkerThread(WorkerThread&&) noexcept = default;
WorkerThread& WorkerThread::operator=(WorkerThread&& other) noexcept {
  std::swap(shared_, other.shared_);
  return *this;
}

WorkerThread::~WorkerThread() {
  if (shared_ == nullptr || !shared_->thread.joinable()) return;
  if (shared_->process != ::getpid()) {
    // A thread that does not exist in this process may hold the mutex.
    new std::shared_ptr<Shared>(shared_);  // NOLINT: never freed
    return;
  }
  bool is_idle = false;
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->is_left = true;
    is_idle = shared_->is_idle;
  }
  shared_->begun.notify_one();
  if (is_idle) {
    shared_->thread.join();
  } else {
    shared_->thread.detach();
  }
}

void WorkerThread::Begin(std::function<Status()> work) {
  Shared& shared = *shared_;
  {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    shared.work = std::move(work);
    shared.is_idle = false;
    shared.is_hurried = false;
  }
  if (!shared.thread.joinable()) {
    shared.process = ::getpid();
    shared.thread = StartThreadWithoutSignals([shared = shared_] {
      std::unique_lock<std::mutex> lock(shared->mutex);
      shared->id = static_cast<pid_t>(::syscall(SYS_gettid));
      while (true) {
        shared->begun.wait(lock,
                           [&] { return !shared->is_idle || shared->is_left; });
        if (shared->is_idle) return;
        if (!shared->is_hurried) shared->GiveWay();
        const std::function<Status()> next = std::move(shared->work);
        lock.unlock();
        Status result = CatchExceptions(next);
        lock.lock();
        shared->result = std::move(result);
        shared->is_idle = true;
        shared->done.notify_all();
      }
    });
  }
  if (shared.thread.joinable()) {
    shared.begun.notify_one();
    return;
  }
  Hold(CatchExceptions(std::exchange(shared.work, nullptr)));
}

void WorkerThread::Hold(Status result) {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  shared_->result = std::move(result);
  shared_->is_idle = true;
}

void WorkerThread::Hurry() {
  Shared& shared = *shared_;
  // A child process does not have the thread.
  if (shared.thread.joinable() && shared.process != ::getpid()) return;
  const std::lock_guard<std::mutex> lock(shared.mutex);
  if (shared.is_idle || shared.is_hurried) return;
  shared.is_hurried = true;
  shared.StopGivingWay();
}

bool WorkerThread::IsIdle() const {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  return shared_->is_idle;
}

bool WorkerThread::WaitFor(std::chrono::milliseconds time) const {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  return shared_->done.wait_for(lock, time, [&] { return shared_->is_idle; });
}

void WorkerThread::Finish() const {
  if (shared_->thread.joinable() && shared_->process != ::getpid()) return;
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->done.wait(lock, [&] { return shared_->is_idle; });
}

Status WorkerThread::result() const {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  return shared_->result;
}

}  // namespace belay
